"""Makes tests/golden/tokenizers: small unigram models trained here, and in tokens.json what the reference tokenizers make of texts with
them and with the files in DATA/weights: python tokens.py DATA. CLIP's tokens are transformers', from OpenAI's list of merges; a unigram
model's are sentencepiece's, from its file, and tokenizers', from a tokenizer.json made as T5's is. That library departs from
sentencepiece where a letter that is rewritten has a combining mark. Needs transformers, tokenizers, sentencepiece."""
import gzip
import io
import json
import sys

import sentencepiece
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
from transformers import CLIPTokenizer

TEXTS = [
    "", " ", "a photo of a cat", "A man's dog, running 1234 m/s!", "Hello   World\t\n tabs", "  leading and trailing  ",
    "it's I'll we've they'd I'm you're don't 'tis", "!'s ''s 'S 'LL x's'", "don\u2019t \u201cquote\u201d \u2013 \u2014 \u2026",
    "caf\xe9 cafe\u0301 \xc5ngstr\xf6m A\u030angstrom", "\u0130stanbul \u03a3\u0391\u03a3 \u1e9e\xdf \u01c5",
    "\ufb01nancial \ufb03 \u2160\u2164 \xbd\xb2\xb3", "\uff28\uff45\uff4c\uff4c\uff4f\u3000\uff11\uff12\uff13",
    "\u4e2d\u6587\u5b57\u7b26 \u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8 \ud55c\uad6d\uc5b4",
    "\u1112\u1161\u11ab\u1100\u116e\u11a8",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f1e9\U0001f1ea",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd \u0928\u092e\u0938\u094d\u0924\u0947",
    "\xa0nbsp\u2003em\u200bzero\u2028line\ufeffbom", "\u0663\u0664\u0665 \u0967\u0968 \u2460 \u3007",
    "a\u0327\u0301 a\u0301\u0327 q\u0307\u0323 \u1e69 s\u0323\u0307",
    "x<|endoftext|> y <|ENDOFTEXT|>!! <|startoftext|>z <|endoftext|", "a" * 300, "!" * 200, "1" * 50,
    "lorem ipsum dolor sit amet " * 30, "\u2581a \u2581 a\u2581b \u2581\u2581c", "</s> <pad> <unk> <extra_id_0> <extra_id_99>x",
    "http://example.com/?q=a&b=%20#x", "C++ && D# @user $5.00 100%", "\u2126 \u212b \u1100\u1161 \u0958 \u2adc \ufa10",
    "\u2603\u2603 \u2603", "\x01\x7f\x1b[0m", "\u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22", "\xaa\xba \u2122 \xa9",
]
# The longest of several rules, and the rest of several marks, where the tokenizers library differs.
LONGEST = ["a\u030d\u0301 e\u0301\u0301 a\u0328\u0301", "\u2460 \u2460\u2461 \u2460\u2461\u2462 \u2460\u2462"]


def clip(data):
    lines = gzip.open(data + "/weights/clip-bpe/bpe_simple_vocab_16e6.txt.gz").read().decode().split("\n")[1:49152 - 256 - 2 + 1]
    keep = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    chars = [chr(b) for b in keep] + [chr(256 + i) for i in range(256 - len(keep))]
    tokens = chars + [c + "</w>" for c in chars] + ["".join(m.split()) for m in lines] + ["<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={t: i for i, t in enumerate(tokens)}, merges=[tuple(m.split()) for m in lines])


RULES = [(" ", "\t"), (" ", "\n"), (" ", "\u00a0"), (" ", "\u3000"), (" ", "\u2003"), ("fi", "\ufb01"), ("ffi", "\ufb03"), ("\u00e9", "e\u0301"),
         ("TM", "\u2122"), ("1\u20442", "\u00bd"), ("", "\u200b"), ("", "\ufeff"), ("IV", "\u2163"), ("the", "\u2460"),
         ("fox", "\u2460\u2461"), ("dog", "\u2460\u2461\u2462")]
RULES += [(chr(c - 0xFEE0), chr(c)) for c in range(0xFF01, 0xFF5F)]


def train(size, **more):
    """A model of the texts themselves, with RULES."""
    rules = "/tmp/rules.tsv"
    with open(rules, "w") as f:
        for to, of in RULES:
            f.write(" ".join("%X" % ord(c) for c in of) + "\t" + " ".join("%X" % ord(c) for c in to) + "\n")
    out = io.BytesIO()
    words = "the quick brown fox jumps over a lazy dog while cats photograph running men in financial caf\u00e9s \u4e2d\u6587 \u65e5\u672c".split()
    lines = [" ".join(words[(i * k + k) % len(words)] for i in range(8)) for k in range(1, 60)]
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(lines), model_writer=out, vocab_size=size, model_type="unigram",
                                             normalization_rule_tsv=rules, hard_vocab_limit=False, num_threads=1, minloglevel=2, **more)
    return out.getvalue()


def charsmap(b):
    """normalizer_spec.precompiled_charsmap of a model."""

    def fields(b):
        i = 0

        def varint():
            nonlocal i
            v = s = 0
            while True:
                v |= (b[i] & 127) << s
                s += 7
                i += 1
                if not b[i - 1] & 128:
                    return v
        while i < len(b):
            key = varint()
            if key & 7 == 2:
                n = varint()
                yield key >> 3, b[i:i + n]
                i += n
            elif key & 7 == 5:
                i += 4
            else:
                varint()
    return [v for k, v in fields([v for k, v in fields(b) if k == 3][0]) if k == 2][0]


def processor(model):
    return sentencepiece.SentencePieceProcessor(model_proto=model)


def unigram(model):
    """As T5's: <pad> </s> <unk>, pieces, <extra_id_>s."""
    sp = processor(model)
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    pieces += [(sp.id_to_piece(i), sp.get_score(i)) for i in range(3, sp.vocab_size())] + [("<extra_id_%d>" % i, 0.0) for i in (1, 0)]
    t = Tokenizer(models.Unigram(pieces, unk_id=2, byte_fallback=False))
    t.normalizer = normalizers.Precompiled(charsmap(model))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(),
                                               pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always", split=True)])
    t.add_special_tokens(["<pad>", "</s>", "<unk>", "<extra_id_1>", "<extra_id_0>"])
    return t


if __name__ == "__main__":
    data, where = sys.argv[1], "tests/golden/tokenizers/"
    plain = train(120)
    special = train(400, byte_fallback=True, user_defined_symbols=["photo of", "\uff11\uff12"], remove_extra_whitespaces=False, add_dummy_prefix=False)
    u, c = unigram(plain), clip(data)
    for name, model in (("plain.model", plain), ("special.model", special)):
        with open(where + name, "wb") as f:
            f.write(model)
    o = json.loads(u.to_str())
    with open(where + "plain.json", "w") as f:
        json.dump({k: o[k] for k in ("added_tokens", "normalizer", "pre_tokenizer", "model")}, f, separators=(",", ":"))
    shared = sentencepiece.SentencePieceProcessor(model_file=data + "/weights/sentencepiece/test_model.model")
    rows = [{"text": t, "clip": c(t).input_ids, "padded": c(t, padding="max_length", truncation=True, max_length=77).input_ids,
             "shared": shared.encode(t), "plain": processor(plain).encode(t), "special": processor(special).encode(t),
             "json": u.encode(t).ids} for t in TEXTS + LONGEST]
    for r in rows[len(TEXTS):]:
        del r["json"]
    with open(where + "tokens.json", "w") as f:
        f.write('{"rows": [\n' + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]}\n")
