"""The lane picture: well-formed, escaped, and only what lies in the time asked for."""

from xml.etree import ElementTree

from doyen.sim.lanes import Picture

SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(SVG + tag))


def picture() -> Picture:
    made = Picture("a <b> & c", ["ant", "<bee>"])
    made.span("ant", 0.0, 4.0, "leads", "ant leads, term 1")
    made.span("<bee>", 3.0, 5.0, "leads", "<bee> leads, term 2")
    made.mark("", 3.5, "partition", bad=True)
    made.arrow("ant", "<bee>", 1.0, 1.5, "Vote")
    made.arrow("<bee>", "ant", 2.0, None, "Vote")
    return made


def test_names_are_escaped_and_every_span_is_drawn_to_scale() -> None:
    svg = picture().svg()
    bars = [bar for bar in drawn(svg, "rect") if bar.find(SVG + "title") is not None]
    assert [float(bar.attrib["width"]) for bar in bars] == [696.0, 348.0]  # 4 s and 2 s of 5 s on 870 points.
    assert "<bee>" in {text.text for text in drawn(svg, "text")}
    lost = [line for line in drawn(svg, "line") if "stroke-dasharray" in line.attrib]
    assert len(lost) == 1


def test_a_part_of_the_time_leaves_out_the_rest() -> None:
    svg = picture().svg(0.0, 0.9)
    assert not [line for line in drawn(svg, "line") if line.find(SVG + "title") is not None]
    assert not drawn(svg, "circle")
