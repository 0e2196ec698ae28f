"""JSON as RFC 8259 has it: texts that are none are 400 wherever they stand, texts that are some are read, and what the
RFC leaves open is written down here. The cases follow the grammar, production by production."""
import json
import re

import pytest

ROUTES = ["/v1/attention", "/v1/masks", "/v1/positions", "/v1/heatmaps"]
INFER = "/v2/models/scaled_dot_product_attention/infer"

# Values that are not JSON (section: 3 values, 4 objects, 5 arrays, 6 numbers, 7 strings, 8.1 UTF-8).
NOT_JSON = [
    b"", b" ", b"nul", b"tru", b"falsy", b"True", b"NULL", b"undefined", b"nan", b"NaN", b"Infinity", b"-Infinity", b"a",
    b"'a'", b"`", b"*", b"/", b"{", b"}", b"[", b"]", b":", b",", b"\x00", b"\xef\xbb\xbf", b"\xff", b"// x\n1", b"1 // x",
    b"/* */ 1", b"#1\n1", b"1 2", b"1,2", b"[] []", b"{}{}", b"[1]]", b"{}}", b"[1}", b'{"a":1]',
    b"{,}", b"{1:2}", b"{a:1}", b"{'a':1}", b'{"a"}', b'{"a":}', b'{:1}', b'{"a":1,}', b'{"a":1,,"b":2}', b'{"a" 1}',
    b'{"a"::1}', b'{"a":1 "b":2}', b'{"a":1;"b":2}', b'{"a", 1}', b'{[]:1}', b'{"a":1', b'{"a"', b'{"a":', b'{"a',
    b"[,]", b"[1,]", b"[,1]", b"[1,,2]", b"[1 2]", b"[1:2]", b"[1;2]", b"[(1)]", b"[1", b"[1,", b"[[1]", b'["a"', b"[\x0c1]",
    b"[\xc2\xa01]", b"[\xe2\x81\xa01]", b"[\x0b1]", b"[\x011]", b"[1\x00]", b"[1]\x00",
    b"01", b"-01", b"00", b"+1", b"++1", b"-", b"--1", b"- 1", b".5", b"-.5", b"1.", b"-1.", b"1.e1", b"1e", b"1e+", b"1E-",
    b"1e1.5", b"1.5.5", b"1e1e1", b"0x1", b"0x", b"1_000", b"1 000", b"1a", b"-a", b"0e", b"0e+", b"2.e3", b"1f",
    b"1-2", b"1+2", b"-NaN", b"\xef\xbc\x91", b"1\xe5", b"-Inf", b"1e\xe5",
    b'"', b'"a', b'"\\"', b'"\\', b'"\\x00"', b'"\\a"', b'"\\\'"', b'"\\U0041"', b'"\\u"', b'"\\u00"', b'"\\u004"', b'"\\u00g0"',
    b'"\\u 041"', b'"\\u-041"', b'"\x00"', b'"\x01"', b'"\t"', b'"\n"', b'"\x1f"', b'"\\u{41}"', b'"\\ "', b'"\\0"',
    b'"\xff"', b'"\xc3"', b'"\xc3("', b'"\xe2\x82"', b'"\xc0\xaf"', b'"\xe0\x80\xaf"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"',
    b'"\xf8\x88\x80\x80\x80"', b'"\x80"', b'"\xfe"', b'"\\\xf0\x9f\x8c\x80"',
    b"[" * 100000, b'{"a":' * 100000, b'[{"a":' * 50000,
]

# Left open by the RFC: a parser may take them; this one does not, and says so with 400.
REFUSED_HERE = {
    b'"\\ud800"': "half of a surrogate pair", b'"\\udc00\\ud800"': "a pair the wrong way round",
    b'"\\ud800\\u0041"': "a half and a letter", b'"\\u0000"': "NUL, which C texts cannot hold",
    b'{"a":1,"a":2}': "a name twice", b'{"a":{"b":1,"b":1}}': "a name twice, further in",
    b"[" * 40 + b"]" * 40: "deeper than max_json_depth",
}

JSON = [
    b"null", b"true", b"false", b"0", b"-0", b"1", b"-1", b"10", b"1.5", b"-1.5", b"0.1", b"1e1", b"1E1", b"1e+1", b"1e-1",
    b"1.5e10", b"0e1", b"0E+1", b"0.0", b"123456789012345678", b"1e-400", b"20e1", b"-0.0e-0",
    b"{}", b'{"":1}', b'{"a":1}', b'{"a":{"b":{}}}', b'{ "a" : 1 , "b" : 2 }', b'{"a\\u0041":1}', b"[]", b"[1]", b"[[]]",
    b"[1,2]", b"[ 1 , 2 ]", b"[\n1\r\n,\t2]", b"[[1],[2,[3]]]", b'[null,true,"a",{}]', b" 1 ", b'""', b'"a"', b'" "',
    b'"\\"\\\\\\/\\b\\f\\n\\r\\t"', b'"\\u0041\\u00e9\\u20ac"', b'"\\ud83d\\ude00"', b'"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"',
    b'"\x7f"', b'"\xc2\x80"', b'"\xef\xbf\xbf"', b'"\xf4\x8f\xbf\xbf"', b'"\\uffff"', b'"/"', b'"\\/"', b'"\xe2\x80\xa8"',
    b"[" * 20 + b"]" * 20,
]


def ask(daemon, path, body):
    reply = daemon.post(path, body)
    return reply.status_code, reply.json().get("code"), reply.text[:300]


@pytest.fixture(scope="module")
def refusals(daemon):
    yield
    assert daemon.get("/healthz").status_code == 200


def opens(text):
    """Does it begin with a list, an object, a string or a number? That it is of another type than the field may be said first."""
    return re.match(rb'\s*([\[{"]|-?(0|[1-9][0-9]*)(?![0-9]))', text) is not None


@pytest.mark.parametrize("path", ROUTES + [INFER])
def test_what_is_not_json_is_400(daemon, refusals, path):
    """As the whole body, and as the value of a field. A body that begins as another value
    than an object, or with a field that nobody knows, is 422 there, whatever follows."""
    for text in [*NOT_JSON, *REFUSED_HERE]:
        status, code, said = ask(daemon, path, text)
        other = re.match(rb'\s*(\[|"|-?[0-9]|true|false|null)', text)
        early = code == "wrong_type" and other or code == "unknown_field" and text.startswith(b'{"')
        assert status == 400 or (path != INFER and early), (text[:60], said)
        if path != INFER:
            status, code, said = ask(daemon, path, b'{"dry_run":' + text + b"}")
            assert status == 400 or (status == 422 and opens(text)), (text[:60], said)


@pytest.mark.parametrize("path", ROUTES)
def test_what_is_json_is_read(daemon, refusals, path):
    """It may be the wrong value, but not the wrong text."""
    for text in JSON:
        json.loads(text)
        status, code, said = ask(daemon, path, b'{"dry_run":' + text + b"}")
        assert status == 422 and code in ("wrong_type", "invalid_value", "unknown_field", "shape_mismatch"), (text, said)


@pytest.mark.parametrize("text", [t for t in NOT_JSON if len(t) < 1000 and t.strip() and t != b"1,2"], ids=repr)
def test_tensors_hold_no_less(daemon, text):
    """In the parsers of tensors, which are not that of the rest."""
    status, code, said = ask(daemon, "/v1/attention", b'{"query":[[1,' + text + b']],"key":[[1,2]],"value":[[1]]}')
    assert (status, code) == (400, "malformed_json") or (status == 422 and opens(text)), said
    infer = b'{"inputs":[{"name":"query","shape":[1,2],"datatype":"FP32","data":[1,' + text + b"]}]}"
    assert ask(daemon, INFER, infer)[0] == 400
