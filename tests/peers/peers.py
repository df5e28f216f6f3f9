"""What the comparisons share: TAP lines, and modules that may be absent."""
import importlib
import os

SEED = int(os.environ["PEER_SEED"])
BUILD, SOURCE, DATA = os.environ["B"], os.environ["SRC"], os.environ["DDM_TEST_DATA"]


def missing(*needs):
    """The first that is not there, of modules and of files below the test data."""
    for n in needs:
        if "/" in n:
            if not DATA or not os.path.exists(os.path.join(DATA, n)):
                return "no " + n
        else:
            try:
                importlib.import_module(n)
            except ImportError:
                return "no module " + n
    return None


def case(name, needs, fn):
    """fn() returns None, or what is wrong."""
    why = missing(*needs)
    if why:
        print("ok - %s # SKIP %s" % (name, why), flush=True)
        return
    wrong = fn()
    print("%s - %s" % ("not ok" if wrong else "ok", name), flush=True)
    if wrong:
        print("# " + str(wrong).replace("\n", "\n# "), flush=True)
