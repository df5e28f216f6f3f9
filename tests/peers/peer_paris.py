"""The golden ensemble of tests/golden/paris.py made anew, with other random weights, and tested like that."""
import os
import subprocess
import sys
import tempfile

from peers import BUILD, SEED, SOURCE, case

NEEDS = ["torch", "safetensors", "transformers", "diffusers"]


def made_anew():
    with tempfile.TemporaryDirectory() as d:
        made = subprocess.run([sys.executable, SOURCE + "/tests/golden/paris.py"], env=dict(os.environ, PARIS_INTO=d, PARIS_SEED=str(SEED)),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if made.returncode:
            return made.stdout.decode()[-2000:]
        done = subprocess.run([BUILD + "/tests/unit/test_paris"], env=dict(os.environ, DDM_TEST_PARIS=d, CMOCKA_MESSAGE_OUTPUT="TAP"),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout.decode() if done.returncode else None


case("a text-to-image ensemble, step by step: torch, diffusers, transformers", NEEDS, made_anew)
