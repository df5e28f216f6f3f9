"""New networks as in tests/golden/pretrained.py, with other random weights and inputs, tested like the golden ones."""
import os
import subprocess
import sys
import tempfile

from peers import BUILD, SEED, SOURCE, case

NEEDS = ["torch", "safetensors", "transformers", "diffusers", "timm"]


def made_anew():
    with tempfile.TemporaryDirectory() as d:
        env = dict(os.environ, PRETRAINED_INTO=d, PRETRAINED_SEED=str(1000 * SEED))
        made = subprocess.run([sys.executable, SOURCE + "/tests/golden/pretrained.py"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if made.returncode:
            return made.stdout.decode()[-2000:]
        wrong = []
        for t in ("test_pretrained", "test_encoders", "test_textencoder"):
            done = subprocess.run([BUILD + "/tests/unit/" + t], env=dict(os.environ, DDM_TEST_PRETRAINED=d, CMOCKA_MESSAGE_OUTPUT="TAP"),
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode:
                wrong.append(done.stdout.decode())
        return "".join(wrong) or None


case("pretrained networks: diffusers, transformers, timm", NEEDS, made_anew)
