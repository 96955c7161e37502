"""The tools of hearth: the seven default tools, and posting on the board.

A tool without its model is not served, because an answer without words or a description would look like a real one.
"""

import sys

from hearth import speech, vision
from hearth.corpus import list_corpora, search_corpus
from hearth.market import list_marketplace, post_to_market
from hearth.neighbours import find_neighbour
from hearth.phrases import translate
from hearth.pictures import describe_image
from hearth.sounds import transcribe_audio

TOOLS = [search_corpus, list_corpora, translate, find_neighbour, list_marketplace, post_to_market]
for function, missing in ((describe_image, vision.missing()), (transcribe_audio, speech.missing())):
    if missing is None:
        TOOLS.append(function)
    else:
        print(f"{function.definition.name} is not served: {missing}", file=sys.stderr)
