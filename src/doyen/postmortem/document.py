"""Writes an incident as one file that opens anywhere: no other file, no network, and no script but its own.

Everything that a recording says is data in it: text, never markup.  The file's policy (CSP) names the digest of its
one script and its one style, so that nothing else runs, whatever a name or a reason holds.
"""

from base64 import b64encode
from hashlib import sha256
from typing import Any, Final

import msgspec

from doyen.core.plain import plain_json
from doyen.eyes.assets import text
from doyen.postmortem.picture import Incident

ABOUT: Final = {
    "recordings": "From the recordings of {nodes} nodes.",
    "simulation": "A simulation: all of it happened in made-up time.",
}
HINT: Final = (
    "Bars: who could act as leader. Click an instant, or move there by the keyboard, for what each node would have "
    "explained then."
)

_START: Final = 'showIncident(JSON.parse(document.getElementById("incident").textContent));'
NOTHING_ELSE: Final = "base-uri 'none'; form-action 'none'"
_PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>doyen</title>
<style>{style}</style>
</head>
<body>
<header><h1 id="title"></h1><p id="source" class="about"></p><div id="verdicts"></div></header>
<main>
<div id="lanes"></div>
<div id="explain" aria-live="polite"></div>
<section id="beside"><h2>To be known beside it</h2><ul id="notes"></ul></section>
<section id="recordings"><h2>Recordings and their clocks</h2>
<p class="about">Clocks are aligned by the messages between the nodes: none arrives before it is sent.</p>
<div class="scroll"><table><thead><tr>
<th>node</th><th>recording</th><th>doyen</th><th>inputs</th><th>begins</th><th>ends</th>
<th>clock known to</th><th>wall clock ahead by</th></tr></thead><tbody id="clocks"></tbody></table></div></section>
<noscript><p>This file draws itself with a script: allow it to run.</p></noscript>
</main>
<script type="application/json" id="incident">{data}</script>
<script type="module">{script}</script>
</body>
</html>
"""


def data(incident: Incident) -> str:
    """Return an incident as the JSON that `showIncident` of incident.js takes."""
    nodes = len({clock.node for clock in incident.clocks})
    about = f"{ABOUT[incident.source].format(nodes=nodes)} {HINT}"
    shown: dict[str, Any] = {**msgspec.to_builtins(incident), "about": about}
    return plain_json(msgspec.json.encode(shown)).decode()


def script() -> str:
    """Return what draws an incident: the functions `drawLanes` and `showIncident`."""
    return f"{text('lanes.js')}\n{text('incident.js')}"


def style() -> str:
    """Return the style of what `script` draws."""
    return f"{text('incident.css')}\n{text('lanes.css')}"


def document(incident: Incident) -> str:
    """Return the file."""
    runs, looks = f"{script()}\n{_START}", style()
    return _PAGE.format(
        data=data(incident).replace("<", "\\u003c"),
        script=runs,
        style=looks,
        policy=f"default-src 'none'; script-src {_digest(runs)}; style-src {_digest(looks)}; {NOTHING_ELSE}",
    )


def _digest(content: str) -> str:
    return f"'sha256-{b64encode(sha256(content.encode()).digest()).decode()}'"
