"""ddm-ingest --text-detector against the package rapidocr-onnxruntime: the area of the boxes that PaddleOCR's published detector finds, run by ONNX
Runtime and by the package's own rule for boxes; and how well the score tells pictures with subtitles from those without."""
import glob
import os
import subprocess
import tempfile

from peers import BUILD, DATA, SEED, case, there

NEEDS = ["numpy", "cv2", "onnxruntime", "rapidocr_onnxruntime", "photos/coco"]
LONGER = 640


def weights():
    import rapidocr_onnxruntime

    return glob.glob(os.path.join(os.path.dirname(rapidocr_onnxruntime.__file__), "models", "*det*.onnx"))[0]


def lettered(photo, rng):
    """The photograph with a line of letters, below or above."""
    import cv2

    out, size = photo.copy(), float(rng.uniform(.7, 1.3))
    words = "".join(chr(rng.integers(97, 123)) if rng.random() > .2 else " " for _ in range(20)).strip()
    at = (int(rng.integers(10, 60)), int(photo.shape[0] * rng.uniform(.85, .95) if rng.random() < .7 else 50))
    cv2.putText(out, words, at, cv2.FONT_HERSHEY_SIMPLEX, size, (0, 0, 0), 6, cv2.LINE_AA)
    cv2.putText(out, words, at, cv2.FONT_HERSHEY_SIMPLEX, size, (255, 255, 255), 2, cv2.LINE_AA)
    return out


def pictures(folder):
    import cv2
    import numpy as np

    rng = np.random.default_rng(SEED)
    for path in sorted(glob.glob(os.path.join(DATA, "photos", "coco", "*.jpg"))):
        name = os.path.splitext(os.path.basename(path))[0]
        photo = cv2.imread(path)
        cv2.imwrite(os.path.join(folder, name + "-plain.png"), photo)
        cv2.imwrite(os.path.join(folder, name + "-text.png"), lettered(photo, rng))


def resized(path):
    """The picture as the toolkit resizes it, by Pillow's rule for bilinear."""
    import numpy as np
    from PIL import Image

    p = Image.open(path).convert("RGB")
    sides = [max(32, round(n * LONGER / max(p.size) / 32) * 32) for n in p.size]
    return np.asarray(p.resize(sides, Image.BILINEAR))[:, :, ::-1]


def area(session, path):
    """Area of the package's boxes, which need not be upright."""
    import cv2
    import numpy as np
    from rapidocr_onnxruntime.ch_ppocr_det.utils import DBPostProcess

    x = resized(path).astype(np.float32) / 127.5 - 1
    p = session.run(None, {session.get_inputs()[0].name: x.transpose(2, 0, 1)[None]})[0]
    covered = np.zeros(p.shape[2:], np.uint8)
    for b in DBPostProcess(thresh=.3, box_thresh=.6, unclip_ratio=1.5, use_dilation=False)(p, covered.shape)[0]:
        cv2.fillPoly(covered, [np.int32(b)], 1)
    return covered.mean()


def areas():
    import json
    import tarfile

    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(weights(), providers=["CPUExecutionProvider"])
    with tempfile.TemporaryDirectory() as dir:
        pictures(dir)
        tar = os.path.join(dir, "out.tar")
        subprocess.run([os.path.join(BUILD, "ddm-ingest"), "-q", "--scores", "--text-detector", weights(), "-o", tar, dir], check=True)
        with tarfile.open(tar) as t:
            got = {m.name[:-5]: json.load(t.extractfile(m))["text"] for m in t if m.name.endswith(".json")}
        want = {k: area(session, os.path.join(dir, k + ".png")) for k in got}
    names = sorted(k[:-5] for k in got if k.endswith("-text"))
    ratio = np.median([got[k + "-text"] / want[k + "-text"] for k in names if want[k + "-text"]])
    found = np.mean([got[k + "-text"] > .004 for k in names])
    more = np.mean([got[k + "-plain"] > .004 for k in names])
    theirs = np.mean([want[k + "-text"] > .004 for k in names])
    print("# %d photographs: text in %.0f%% of those with letters (the package: %.0f%%), in %.0f%% without; areas %.3f of the package's" %
          (len(names), 100 * found, 100 * theirs, 100 * more, ratio))
    if abs(ratio - 1) > .1 or found < theirs:
        return "areas are %.3f of the package's, text is found in %.3f, not %.3f" % (ratio, found, theirs)
    return None


case("text: boxes of the published detector", NEEDS, areas)
