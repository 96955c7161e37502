"""The tools of hearth: the seven default tools, and posting on the board."""

from hearth.corpus import list_corpora, search_corpus
from hearth.market import list_marketplace, post_to_market
from hearth.neighbours import find_neighbour
from hearth.phrases import translate
from hearth.pictures import describe_image
from hearth.sounds import transcribe_audio

TOOLS = [
    search_corpus,
    list_corpora,
    translate,
    find_neighbour,
    list_marketplace,
    post_to_market,
    describe_image,
    transcribe_audio,
]
