"""Random texts through our tokenizers and through transformers', sentencepiece's and tokenizers'."""
import json
import os
import random
import subprocess
import sys
import tempfile
import unicodedata

from peers import BUILD, DATA, SEED, SOURCE, case

sys.path.insert(0, SOURCE + "/tests/golden")
TEXTS = 3000
BLOCKS = [(0x20, 0x7e), (0xa0, 0x24f), (0x370, 0x3ff), (0x400, 0x4ff), (0x590, 0x6ff), (0x900, 0x97f), (0xe00, 0xe7f), (0x1100, 0x11ff),
          (0x1e00, 0x1fff), (0x2000, 0x27bf), (0x3000, 0x30ff), (0x3300, 0x33ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xf900, 0xfaff),
          (0xfb00, 0xfb4f), (0xfe00, 0xffef), (0x1d400, 0x1d7ff), (0x1f300, 0x1faff), (0x300, 0x36f), (9, 13)]
BITS = ["'s", "'ll", "don't", " ", "  ", "\t\n", "\u00a0", "\u3000", "photo of", "1234", "e\u0301", "!!!", "...", "\u2581", "the", "fox", "\U0001f468\u200d\U0001f469",
        "<|endoftext|>", "<|startoftext|>", "</s>", "<extra_id_0>", "\ufb01", "\uff21\uff12", "I\u0307", "\u1112\u1161\u11ab"]


def texts(marks=True):
    """marks=False: no combining marks, before which the tokenizers library normalises differently."""
    r = random.Random(SEED)
    out = ["", " ", "word " * 4000, "x" * 20000, "\u4e2d" * 5000, "!?" * 5000]
    while len(out) < TEXTS:
        parts = []
        for _ in range(r.randrange(1, 12)):
            if r.random() < .4:
                parts.append(r.choice(BITS))
            else:
                lo, hi = r.choice(BLOCKS)
                parts.append("".join(chr(r.randint(lo, hi)) for _ in range(r.randrange(1, 8))))
        t = "".join(parts)
        t = "".join(c for c in t if unicodedata.category(c) not in ("Cn", "Cs", "Co"))
        out.append(t if marks else "".join(c for c in t if unicodedata.category(c)[0] != "M" and c not in "\u200c\u200d"))
    return out


def ours(path, of):
    done = subprocess.run([BUILD + "/tests/peers/tokens_of", path], input="".join(t + "\0" for t in of).encode(), stdout=subprocess.PIPE, check=True)
    return [[int(i) for i in line.split()] for line in done.stdout.decode().split("\n")[:-1]]


def compare(path, of, reference, end=0):
    got = ours(path, of)
    if len(got) != len(of):
        return "%d answers to %d texts" % (len(got), len(of))
    for t, ids in zip(of, got):
        want = reference(t)
        if ids[:len(ids) - end] != want:
            return "%r\nours   %s\ntheirs %s" % (t[:200], ids[:60], want[:60])
    return None


def clip():
    from tokens import clip as reference
    c = reference(DATA)
    return compare(DATA + "/weights/clip-bpe/bpe_simple_vocab_16e6.txt.gz", texts(), lambda t: c(t).input_ids)


def model(path):
    import sentencepiece
    s = sentencepiece.SentencePieceProcessor(model_file=path)
    return compare(path, texts(), s.encode, 1)


def tokenizer_json():
    """The test model's pieces and character map, in the form of T5's tokenizer.json."""
    from tokens import unigram
    t = unigram(open(DATA + "/weights/sentencepiece/test_model.model", "rb").read())
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "tokenizer.json"), "w") as f:
            json.dump(json.loads(t.to_str()), f)
        return compare(d, texts(marks=False), lambda x: t.encode(x).ids, 1)


SHARED = "weights/sentencepiece/test_model.model"
case("CLIP's tokens, transformers", ["transformers", "tokenizers", "sentencepiece", "weights/clip-bpe/bpe_simple_vocab_16e6.txt.gz"], clip)
case("a SentencePiece model", ["sentencepiece", SHARED], lambda: model(DATA + "/" + SHARED))
case("a small SentencePiece model", ["sentencepiece"], lambda: model("tests/golden/tokenizers/plain.model"))
case("a SentencePiece model with bytes", ["sentencepiece"], lambda: model("tests/golden/tokenizers/special.model"))
case("tokenizer.json, tokenizers", ["transformers", "tokenizers", "sentencepiece", SHARED], tokenizer_json)
