"""``python -m p2p_labeldp`` is ``p2p-labeldp``."""

from p2p_labeldp.cli import script

if __name__ == "__main__":
    script()
