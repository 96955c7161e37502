"""Doctor: finds out by live probes what an endpoint with OpenAI's chat API really honours, instead of believing it.

`probes` is the table: what is asked and how the answer is judged; `keywords` is the part of it about schemas.
`asking` speaks to the endpoint, `lever` finds how its model is brought to make a call at all, `judging` turns what was
seen into a verdict, and `examination` drives all of it.
"""

from ferrule.engines.doctor.examination import TOTAL, examine
from ferrule.engines.doctor.probes import PROBES

__all__ = ["PROBES", "TOTAL", "examine"]
