"""Shared by the comparisons: TAP lines, and modules that may be absent."""
import importlib
import os
import traceback

# numpy's and torch-fidelity's generators take seeds of 32 bits; our tests use seeds a thousand times as large, in 64.
SEED = int(os.environ["PEER_SEED"]) % (1 << 32)
BUILD, SOURCE, DATA = os.environ["B"], os.environ["SRC"], os.environ["DDM_TEST_DATA"]


def there(need):
    """A module or, if it contains a slash, a file below the test data."""
    if "/" in need:
        return DATA and os.path.exists(os.path.join(DATA, need))
    try:
        importlib.import_module(need)
        return True
    except ImportError:
        return False


def some_of(all_of_them, n):
    """n elements of a list, in order, chosen by the seed; all of them if there are fewer."""
    start = SEED % max(1, len(all_of_them) - n + 1)
    return all_of_them[start:start + n]


def case(name, needs, fn):
    """fn() returns None, or a description of the fault."""
    missing = [n if "/" in n else "module " + n for n in needs if not there(n)]
    if missing:
        print("ok - %s # SKIP no %s" % (name, ", no ".join(missing)), flush=True)
        return
    try:
        wrong = fn()
    except Exception:
        wrong = traceback.format_exc()
    print("%s - %s" % ("not ok" if wrong else "ok", name), flush=True)
    if wrong:
        print("# " + str(wrong).replace("\n", "\n# "), flush=True)
