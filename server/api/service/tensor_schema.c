/* JSON schemas of tensors and of the files that hold them, in bodies and answers. */
#include <stdio.h>
#include <string.h>

#include "api/service/schema.h"

/* --- nested lists --- */

/* The schemas of tensors as nested lists. A schema has an alternative for each depth. A schema that
 * refers to itself would be shorter, but client generators cannot express it as a type. */
static const struct {
    const char *name, *what;
    const char *leaves[2]; /* types of elements, as JSON; all elements of a tensor have one type */
} lists[] = {
    {"TensorList", "Numbers, nested by axis.", {"\"number\""}},
    {"BiasTensorList", "Numbers, null = -infinity, nested by axis.", {"[\"number\",\"null\"]"}},
    {"MaskTensorList",
     "Numbers, null = -infinity, or booleans, nested by axis.",
     {"[\"number\",\"null\"]", "\"boolean\""}},
    {"FlagTensorList", "Numbers or booleans, nested by axis.", {"\"number\"", "\"boolean\""}},
    {"BooleanTensorList", "Booleans, nested by axis.", {"\"boolean\""}},
    {"IntegerTensorList", "Integers, nested by axis.", {"\"integer\""}},
    {"PositionTensorList", "Integers or null, nested by axis.", {"[\"integer\",\"null\"]"}},
    {"Numbers",
     "Nested by axis; null stands for a number that is not finite.",
     {"[\"number\",\"null\"]"}},
    {"Flags", "Booleans, nested by axis.", {"\"boolean\""}},
    {"V2Data",
     "Numbers or booleans, flat or nested by axis.",
     {"[\"number\",\"null\"]", "\"boolean\""}},
};

/* Writes the schema of lists that are nested `axes` deep, with elements of the type `leaf`. The
 * alternatives must exclude each other. Therefore only innermost lists may be empty, and only if
 * `empty` is true. The caller sets `empty` for one type of elements only. */
static void put_nested(attn_json_text *j, const char *leaf, int axes, bool empty) {
    attn_json_object(j);
    attn_json_key_string(j, "type", "array");
    if (axes > 1 || !empty)
        attn_json_key_int(j, "minItems", 1);
    attn_json_key(j, "items");
    if (axes > 1) {
        put_nested(j, leaf, axes - 1, empty);
    } else {
        attn_json_object(j);
        attn_json_key(j, "type");
        attn_json_raw(j, leaf, strlen(leaf));
        attn_json_object_end(j);
    }
    attn_json_object_end(j);
}

static void put_lists(attn_json_text *j) {
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        attn_json_key_object(j, lists[i].name);
        attn_json_key_string(j, "description", lists[i].what);
        attn_json_key_array(j, "oneOf");
        for (int leaf = 0; leaf < 2 && lists[i].leaves[leaf]; leaf++)
            for (int axes = 1; axes <= ATTN_MAX_RANK; axes++)
                put_nested(j, lists[i].leaves[leaf], axes, leaf == 0);
        attn_json_array_end(j);
        attn_json_object_end(j);
    }
}

/* --- tensors --- */

static const char *const dtypes[] = {"float32", "float16", "bfloat16", "float64", "int32",
                                     "int64",   "uint8",   "bool",     NULL};
static const char *const randoms[] = {"normal", "uniform", NULL};
static const char *const inits[] = {"xavier_uniform", "xavier_normal", "kaiming_uniform",
                                    "kaiming_normal", NULL};
static const char *const encodings[] = {"bits", NULL};
static const char *const fills[] = {"zeros", "ones", "eye", "arange", NULL};

static const srv_field run_rows[] = {
    SRV_WRITTEN("batch", "integer+?", NULL, "The batch entry."),
    SRV_WRITTEN("head", "integer+?", NULL, "The head."),
    SRV_WRITTEN("runs", "[[integer+ 3]]", NULL, "The runs [row, from, to).", .always = true),
    {0},
};

static const srv_field object_rows[] = {
    SRV_WRITTEN("shape", "[integer+ 1-8]", NULL, "The length of each axis."),
    SRV_WRITTEN("dtype", "string", NULL, "The type of the elements; default float32.",
                .choices = dtypes),
    SRV_WRITTEN("data", "MaskTensorList", NULL, "The elements, flat or nested by axis."),
    SRV_WRITTEN("base64", "string", NULL, "The elements as little-endian bytes."),
    SRV_WRITTEN(
        "encoding", "string", NULL,
        "Beside shape, for booleans: eight in a byte. Each row of the last axis "
        "begins at a byte, and element j of a row is bit j % 8 of byte j / 8, counted from "
        "the lowest: numpy.packbits(mask, axis=-1, bitorder='little'). The bytes are those of "
        "base64 or, in a binary body, of a tensor of uint8 with the name of the field.",
        .choices = encodings),
    SRV_WRITTEN("random", "string", NULL, "Random elements, a function of seed.",
                .choices = randoms),
    SRV_WRITTEN("init", "string", NULL,
                "Initial values of a weight [fan_out, fan_in], or of a bias [fan_out] with "
                "fan_in, spread as torch.nn.init does it.",
                .choices = inits),
    SRV_WRITTEN("fan_in", "integer+1", NULL,
                "For init of a bias, a tensor with one axis: the number of inputs of its "
                "layer."),
    SRV_WRITTEN("seed", "integer", NULL, "The seed of random and init."),
    SRV_WRITTEN("std", "number+", NULL,
                "The standard deviation of random. Uniform numbers then lie around 0; "
                "without std they lie in [0, 1)."),
    SRV_WRITTEN("a", "number", NULL,
                "The slope a of kaiming_uniform and kaiming_normal. The default, sqrt(5), "
                "is that of torch.nn.Linear: uniform numbers within 1/sqrt(fan_in)."),
    SRV_WRITTEN("fill", "string", NULL, "Equal elements, the unit matrix, or 0, 1, 2, ….",
                .choices = fills),
    SRV_WRITTEN("runs", "[*]", NULL,
                "Runs [row, from, to) of true, as POST /v1/masks answers them; null stands "
                "for every batch entry or head. The dtype is bool.",
                .fields = run_rows),
    {0},
};

static const srv_field opens[] = {
    SRV_WRITTEN("openapi", "string", NULL, "The version of OpenAPI.", .always = true), {0}};

static const srv_field tensors[] = {
    SRV_GROUP("TensorObject", object_rows,
              "A shape and one of: data (flat, row-major), base64 (little-endian bytes), "
              "random (with seed), init, fill, or runs of a tensor of booleans; or data "
              "of nested lists, without shape."),
    SRV_WRITTEN("NpyBody", "string:binary;application/x-npy", NULL,
                "One array of NumPy, the first tensor of the route: query of attention, "
                "weights of heatmaps and analyses, values of curves. The other fields are "
                "parameters of the query string. In Python:\n"
                "\n"
                "    import io, numpy, requests\n"
                "    file = io.BytesIO()\n"
                "    numpy.save(file, numpy.eye(2, dtype='float32'))\n"
                "    headers = {'Content-Type': 'application/x-npy', 'Accept': "
                "'application/x-npy'}\n"
                "    answer = "
                "requests.post('http://localhost:8080/v1/attention?is_causal=true&return=we"
                "ights', file.getvalue(), headers=headers)\n"
                "    print(numpy.load(io.BytesIO(answer.content)))\n"),
    SRV_WRITTEN("NpzBody", "string:binary;application/x-npz", NULL,
                "An archive of NumPy with the tensors of the request by the names of their "
                "fields: query, score.w for a field of an object, masks.0.attn_mask for a "
                "field of a list. The string request holds the other fields as JSON. In "
                "Python:\n"
                "\n"
                "    import io, json, numpy, requests\n"
                "    file = io.BytesIO()\n"
                "    numpy.savez(file, query=numpy.eye(2, dtype='float32'), "
                "request=json.dumps({'is_causal': True, 'return': 'weights'}))\n"
                "    headers = {'Content-Type': 'application/x-npz', 'Accept': "
                "'application/x-npy'}\n"
                "    answer = requests.post('http://localhost:8080/v1/attention', "
                "file.getvalue(), headers=headers)\n"
                "    print(numpy.load(io.BytesIO(answer.content)))\n"),
    SRV_WRITTEN("SafetensorsBody", "string:binary;application/vnd.safetensors", NULL,
                "The tensors of the request by the names of their fields: query, score.w "
                "for a field of an object, masks.0.attn_mask for a field of a list. The "
                "metadata text request holds the other fields as JSON. In Python:\n"
                "\n"
                "    import json, numpy, requests\n"
                "    from safetensors.numpy import load, save\n"
                "    query = numpy.eye(2, dtype='float32')\n"
                "    body = save({'query': query}, {'request': json.dumps({'is_causal': "
                "True})})\n"
                "    kind = 'application/vnd.safetensors'\n"
                "    answer = requests.post('http://localhost:8080/v1/attention', body, "
                "headers={'Content-Type': kind, 'Accept': kind})\n"
                "    print(load(answer.content)['weights'])\n"),
    SRV_WRITTEN("SafetensorsAnswer", "string:binary;application/vnd.safetensors", NULL,
                "The tensors of the answer by the names of their members. The metadata "
                "text response holds the rest of the answer as JSON; without a rest it is "
                "absent."),
    SRV_WRITTEN("NpyAnswer", "string:binary;application/x-npy", NULL,
                "The one tensor of the answer as a file of NumPy: "
                "numpy.load(io.BytesIO(answer.content)). An answer with several tensors or "
                "other members is 406."),
    SRV_WRITTEN("Picture", "string:binary;image/png", NULL, NULL),
    SRV_WRITTEN("Metrics", "string", NULL, "Prometheus text format."),
    SRV_GROUP("OpenApi", opens, NULL, .accepts = SRV_O_OPEN),
    {0},
};

static const struct {
    const char *name, *what;
} bodies[] = {
    {"Tensor", "Numbers, nested by axis, or an object."},
    {"BiasTensor", "Numbers, null = -infinity, nested by axis, or an object."},
    {"MaskTensor", "Booleans, or numbers with null = -infinity, nested by axis, or an object."},
    {"FlagTensor", "Booleans, or numbers, nested by axis, or an object."},
    {"BooleanTensor", "Booleans, nested by axis, or an object."},
    {"IntegerTensor", "Integers, nested by axis, or an object."},
    {"PositionTensor", "Integers or null, nested by axis, or an object."},
};

/* Writes the schemas of tensors in bodies: nested lists, or an object. */
static void put_tensors(attn_json_text *j) {
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char list[64];
        snprintf(list, sizeof list, "#/components/schemas/%sList", bodies[i].name);
        attn_json_key_object(j, bodies[i].name);
        attn_json_key_string(j, "description", bodies[i].what);
        attn_json_key_array(j, "oneOf");
        attn_json_object(j);
        attn_json_key_string(j, "$ref", list);
        attn_json_object_end(j);
        attn_json_object(j);
        attn_json_key_string(j, "$ref", "#/components/schemas/TensorObject");
        attn_json_object_end(j);
        attn_json_array_end(j);
        attn_json_object_end(j);
    }
}

void srv_schema_tensors(attn_json_text *j) {
    put_lists(j);
    put_tensors(j);
    srv_schema_answers(j, tensors);
}
