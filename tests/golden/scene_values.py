"""Scores and cuts of PySceneDetect, and OpenCV's grey, HSV and Laplacian, of synthetic frames: python scene_values.py > scene_values.h, with
scenedetect 0.7.2 and opencv-python-headless 5.0. tests/unit/test_scenes.c and test_clipscores.c make the same frames."""
import cv2
import numpy as np
from scenedetect import AdaptiveDetector, ContentDetector, FrameTimecode

W, H, N = 40, 24, 260
# A flash of three frames, a flicker of every second frame, two weak changes, scenes of 10 frames, a change in the last frame but one.
CHANGES = {30: 255, 60: 255, 63: 255, 90: 255, 92: 255, 94: 255, 96: 255, 98: 255, 100: 255, 102: 255, 104: 255, 106: 255, 108: 255, 110: 255,
           140: 60, 165: 110, 190: 255, 200: 255, 210: 255, 220: 255, 258: 255}


def mix(x, y, c, n):
    with np.errstate(over="ignore"):
        v = np.uint32(x) * np.uint32(0x9E3779B1) + np.uint32(y) * np.uint32(0x85EBCA77) + np.uint32(c) * np.uint32(0xC2B2AE3D) + np.uint32(n) * np.uint32(0x27D4EB2F)
        v ^= v >> np.uint32(15)
        v *= np.uint32(0x2C1B3C6D)
        v ^= v >> np.uint32(12)
        v *= np.uint32(0x297A2D39)
        v ^= v >> np.uint32(15)
    return v


def grid(w, h):
    return np.meshgrid(np.arange(w, dtype=np.uint32), np.arange(h, dtype=np.uint32), np.arange(3, dtype=np.uint32), indexing="xy")


def frames():
    """Each change adds a pattern of its strength to the scene; each frame adds noise of 0 to 15 to one pixel in four."""
    x, y, c = grid(W, H)
    scene = mix(x, y, c, 1000) >> np.uint32(24)
    for n in range(N):
        if n in CHANGES:
            scene = (scene + (mix(x, y, c, 2000 + n) >> np.uint32(24)) * np.uint32(CHANGES[n]) // np.uint32(255)) & np.uint32(255)
        noise = mix(x, y, c, n)
        extra = np.where((noise >> np.uint32(30)) == 0, (noise >> np.uint32(8)) & np.uint32(15), 0)
        yield np.minimum(scene + extra, 255).astype(np.uint8)


def cuts(detector):
    """The cuts, and the score of each frame."""
    out, scores = [], []
    for n, f in enumerate(frames()):
        out += [t.frame_num for t in detector.process_frame(FrameTimecode(n, 25.0), np.ascontiguousarray(f[:, :, ::-1]))]
        scores.append(detector._frame_score)
    return out, scores


def numbers(name, kind, values):
    print(f"static const {kind} {name}[{len(values)}] = {{")
    for i in range(0, len(values), 6):
        print("    " + " ".join(f"{v!r}," if kind == "double" else f"{v}," for v in values[i : i + 6]))
    print("};\n")


if __name__ == "__main__":
    print("/* Made by scene_values.py with scenedetect and OpenCV. */\n")
    found, scores = cuts(ContentDetector())
    numbers("golden_scene_scores", "double", [float(s) for s in scores])
    numbers("golden_content_cuts", "int", found)
    numbers("golden_content40_cuts", "int", cuts(ContentDetector(threshold=40.0))[0])
    numbers("golden_adaptive_cuts", "int", cuts(AdaptiveDetector())[0])
    numbers("golden_adaptive6_cuts", "int", cuts(AdaptiveDetector(adaptive_threshold=6.0))[0])
    # Sums over the planes of all colours of a coarse cube, so that every branch of the conversion is taken.
    r, g, b = np.meshgrid(np.arange(0, 256, 5), np.arange(0, 256, 5), np.arange(0, 256, 5), indexing="ij")
    cube = np.stack([r.ravel(), g.ravel(), b.ravel()], 1).astype(np.uint8)[None]
    hsv = cv2.cvtColor(np.ascontiguousarray(cube[:, :, ::-1]), cv2.COLOR_BGR2HSV)[0].astype(np.int64)
    place = np.arange(1, len(hsv) + 1)
    numbers("golden_hsv_sums", "long long", [int((hsv[:, k] * (place % 251)).sum()) for k in range(3)])
    grey = cv2.cvtColor(cube, cv2.COLOR_RGB2GRAY)[0].astype(np.int64)
    numbers("golden_grey_sum", "long long", [int((grey * (place % 251)).sum())])
    sharp = []
    for w, h in ((40, 24), (7, 5), (1, 6), (2, 2), (33, 1)):
        x, y, c = grid(w, h)
        p = (mix(x, y, c, w * 100 + h) >> np.uint32(24)).astype(np.uint8)
        sharp.append(float(cv2.Laplacian(cv2.cvtColor(p, cv2.COLOR_RGB2GRAY), cv2.CV_64F).var()))
    numbers("golden_sharp", "double", sharp)
