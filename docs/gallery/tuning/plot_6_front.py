"""
The front of two objectives
===========================

Settings that no other one beats in both objectives, and the edge of what they dominate. Circles are settings that do
not keep the constraint; the star is the recommended setting, the one that alone dominates most.
"""

import scalable_bandits as sb


def beam(setting):
    width, height = setting["width"], setting["height"]
    stress = 60.0 / (width * height**2)
    return {"weight": width * height, "bending": 2.0 / (width * height**3), "stress": stress}


parameters = {"width": sb.Real(0.5, 3.0), "height": sb.Real(1.0, 4.0)}
found = sb.minimize(beam, parameters, 40, objectives=["weight", "bending"], constraints={"stress": sb.AtMost(20.0)})
sb.plots.front(found)
