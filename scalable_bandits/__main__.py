"""``python -m scalable_bandits``: the command ``scalable-bandits``."""

from scalable_bandits.cli import app

if __name__ == "__main__":
    app(prog_name="scalable-bandits")
