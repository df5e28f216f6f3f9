"""Makes lib/text/unicodetable.h: python unicode.py > lib/text/unicodetable.h"""
import unicodedata

LAST = 0x110000


def ranges(test):
    out = []
    for c in range(LAST):
        if not 0xD800 <= c < 0xE000 and test(chr(c)):
            if out and out[-1][1] == c - 1:
                out[-1][1] = c
            else:
                out.append([c, c])
    return out


def table(name, comment, rows):
    print("\n/* %s */" % comment)
    print("static const uint32_t %s[][%d] = {" % (name, len(rows[0])))
    line = "   "
    for r in rows:
        item = " {" + ", ".join("0x%x" % v if v > 9 else str(v) for v in r) + "},"
        if len(line) + len(item) > 142:
            print(line)
            line = "   "
        line += item
    print(line)
    print("};")


def lower():
    """First, last, step, difference modulo 2^32; one character to one."""
    out = []
    for c in range(LAST):
        if 0xD800 <= c < 0xE000 or len(chr(c).lower()) != 1 or chr(c).lower() == chr(c):
            continue
        d = (ord(chr(c).lower()) - c) % 2 ** 32
        if out and out[-1][3] == d and c - out[-1][1] in (1, 2) and (out[-1][2] in (0, c - out[-1][1])):
            out[-1][2] = c - out[-1][1]
            out[-1][1] = c
        else:
            out.append([c, c, 0, d])
    return [[a, b, max(s, 1), d] for a, b, s, d in out]


def classes():
    out = []
    for c in range(LAST):
        k = unicodedata.combining(chr(c))
        if k:
            if out and out[-1][1] == c - 1 and out[-1][2] == k:
                out[-1][1] = c
            else:
                out.append([c, c, k])
    return out


def decompositions():
    """Character, its two parts (the second 0: one part)."""
    out = []
    for c in range(LAST):
        d = unicodedata.decomposition(chr(c))
        if d and not d.startswith("<"):
            out.append([c] + ([int(x, 16) for x in d.split()] + [0])[:2])
    return out


def compositions():
    """Two parts and what they compose to."""
    return sorted([a, b, c] for c, a, b in decompositions() if b and unicodedata.normalize("NFC", chr(a) + chr(b)) == chr(c))


print("/* Unicode %s, written by tests/golden/unicode.py. */" % unicodedata.unidata_version)
print("#ifndef DDM_DATA_UNICODETABLE_H\n#define DDM_DATA_UNICODETABLE_H\n\n#include <stdint.h>")
table("letters", "First, last.", ranges(lambda c: unicodedata.category(c)[0] == "L"))
table("numbers", "First, last.", ranges(lambda c: unicodedata.category(c)[0] == "N"))
table("lower_case", "First, last, step, difference.", lower())
table("classes", "First, last, canonical combining class.", classes())
table("decompositions", "Character, its two parts; the second may be 0.", decompositions())
table("compositions", "Two parts, character.", compositions())
print("\n#endif")
