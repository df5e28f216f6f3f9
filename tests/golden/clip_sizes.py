"""A video whose size changes from 64x48 to 48x48 after 8 of 16 frames, at 10 a second: python clip_sizes.py clip_sizes.ts, with av 18."""
import sys
from fractions import Fraction

import av
import numpy as np

out = av.open(sys.argv[1], "w", format="mpegts")
stream = None
for part, (w, h) in enumerate([(64, 48), (48, 48)]):
    c = av.CodecContext.create("libx264", "w")
    c.width, c.height, c.pix_fmt, c.time_base, c.framerate = w, h, "yuv420p", Fraction(1, 10), Fraction(10)
    c.options = {"bf": "0", "qp": "40", "x264-params": "repeat-headers=1:annexb=1:sei=0"}
    packets = []
    for n in range(8):
        y, x = np.mgrid[0:h, 0:w]
        p = np.stack([(x * 4 + n * 8) % 256, (y * 5) % 256, np.full_like(x, 40 * part + 60)], 2).astype(np.uint8)
        f = av.VideoFrame.from_ndarray(p, format="rgb24").reformat(format="yuv420p")
        f.pts, f.time_base = n, Fraction(1, 10)
        packets += c.encode(f)
    packets += c.encode(None)
    if not stream:
        stream = out.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = w, h, "yuv420p"
    for p in packets:
        p.pts += 8 * part
        p.dts = p.pts
        p.time_base = Fraction(1, 10)
        p.stream = stream
        out.mux(p)
out.close()
