"""Doctor: tests with live probes which features an endpoint with OpenAI's chat API really honours.

`probes` is the table of probes: what is requested and how responses are observed. `keywords` has the probes about
schemas. `client` sends requests, `elicitation` finds a way to make the model call a tool, `observations` says what one
response shows, `verdicts` turns observations into a verdict, and `examination` runs all of it. `continuation_cost`
measures the cost of one more request.
"""

from ferrule.engines.doctor.examination import TOOLS, TOTAL, examine
from ferrule.engines.doctor.probes import PROBES

__all__ = ["PROBES", "TOOLS", "TOTAL", "examine"]
