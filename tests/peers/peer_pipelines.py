"""New models as in tests/golden/paris.py and pixart.py, with other random weights, tested like the golden ones."""
import os
import subprocess
import sys
import tempfile

from peers import BUILD, SEED, SOURCE, case

NEEDS = ["torch", "safetensors", "transformers", "diffusers"]


def made_anew(name):
    def run():
        with tempfile.TemporaryDirectory() as d:
            upper = name.upper()
            made = subprocess.run([sys.executable, SOURCE + "/tests/golden/%s.py" % name],
                                  env=dict(os.environ, **{upper + "_INTO": d, upper + "_SEED": str(SEED)}), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            if made.returncode:
                return made.stdout.decode()[-2000:]
            done = subprocess.run([BUILD + "/tests/unit/test_" + name],
                                  env=dict(os.environ, **{"DDM_TEST_" + upper: d, "CMOCKA_MESSAGE_OUTPUT": "TAP"}), stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT)
            return done.stdout.decode() if done.returncode else None
    return run


case("a text-to-image ensemble, step by step: torch, diffusers, transformers", NEEDS, made_anew("paris"))
case("prompts through a whole PixArt pipeline: diffusers", NEEDS + ["tokenizers"], made_anew("pixart"))
