/* Schemas that no field table holds: tensors as bodies spell them, and what routes answer. */
#include <string.h>

#include "schema.h"

typedef struct named_schema {
    const char *name, *text;
} named_schema;

/* A tensor: nested lists whose leaves are `leaf`, or one of the object forms. */
#define TENSOR(name, doc, leaf)                                                                    \
    {name "List", "{\"type\":\"array\",\"items\":{\"anyOf\":[" leaf                                \
                  ",{\"$ref\":\"#/components/schemas/" name "List\"}]}}"},                         \
    {                                                                                              \
        name, "{\"description\":\"" doc "\",\"anyOf\":[{\"$ref\":\"#/components/schemas/" name     \
              "List\"},{\"$ref\":\"#/components/schemas/TensorObject\"}]}"                         \
    }

#define NUMBER  "{\"type\":\"number\"}"
#define NUMBERS "{\"type\":\"array\",\"items\":{\"type\":[\"number\",\"null\"]}}"
#define STRINGS "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"
#define SIZE    "{\"type\":\"integer\",\"minimum\":0}"
#define SIZES   "{\"type\":\"array\",\"items\":" SIZE "}"
#define PAIR    "{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":2}"
#define RUNS                                                                                       \
    "{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":" SIZE                            \
    ",\"minItems\":3,\"maxItems\":3}}"
#define REF(name)  "{\"$ref\":\"#/components/schemas/" name "\"}"
#define LIST(item) "{\"type\":\"array\",\"items\":" item "}"
#define CLOSED     "\"type\":\"object\",\"additionalProperties\":false"
#define CELLS                                                                                      \
    "{\"description\":\"Nested numbers [R][C], or base64 of row-major cells.\",\"anyOf\":["        \
    "{\"type\":\"array\",\"items\":" NUMBERS "},{\"type\":\"string\"}]}"
#define LABELS "{" CLOSED ",\"properties\":{\"query\":" STRINGS ",\"key\":" STRINGS "}}"
#define OMITTED(name)                                                                              \
    "{" CLOSED ",\"required\":[\"" name "\"],\"properties\":{\"" name "\":{" CLOSED                \
    ",\"required\":[\"values\",\"how\"],\"properties\":{\"values\":{\"type\":\"number\"},"         \
    "\"how\":{\"type\":\"string\"}}}}}"

static const named_schema tensors[] = {
    TENSOR("Tensor", "Numbers, nested by axis, or an object.", NUMBER),
    TENSOR("BiasTensor", "Numbers, null = -infinity, nested by axis, or an object.",
           "{\"type\":[\"number\",\"null\"]}"),
    TENSOR("MaskTensor",
           "Booleans, or numbers with null = -infinity, nested by axis, or an object.",
           "{\"type\":[\"number\",\"boolean\",\"null\"]}"),
    TENSOR("FlagTensor", "Booleans, or numbers, nested by axis, or an object.",
           "{\"type\":[\"number\",\"boolean\"]}"),
    TENSOR("IntegerTensor", "Integers, nested by axis, or an object.", "{\"type\":\"integer\"}"),
    {"TensorObject",
     "{\"description\":\"A shape and one of: data (flat, row-major), base64 (little-endian bytes), "
     "random (with seed) or fill.\",\"type\":\"object\",\"additionalProperties\":false,"
     "\"required\":[\"shape\"],\"properties\":{\"shape\":{\"type\":\"array\",\"items\":" SIZE
     ",\"minItems\":1,\"maxItems\":8},\"dtype\":{\"enum\":[\"float32\",\"float16\",\"bfloat16\","
     "\"float64\",\"int32\",\"int64\",\"uint8\",\"bool\"]},\"data\":{\"type\":\"array\",\"items\":"
     "{\"type\":[\"number\",\"boolean\",\"null\"]}},\"base64\":{\"type\":\"string\"},\"random\":"
     "{\"enum\":[\"normal\",\"uniform\"]},\"seed\":{\"type\":\"integer\"},\"fill\":{\"enum\":["
     "\"zeros\",\"ones\",\"eye\",\"arange\"]}},\"oneOf\":[{\"required\":[\"data\"]},{\"required\":"
     "[\"base64\"]},{\"required\":[\"random\",\"seed\"]},{\"required\":[\"fill\"]}]}"},
    {"Numbers", "{\"description\":\"Nested by axis; null stands for what is not finite.\",\"type\":"
                "\"array\",\"items\":{\"anyOf\":[{\"type\":[\"number\",\"null\"]},{\"$ref\":"
                "\"#/components/schemas/Numbers\"}]}}"},
    {"Flags", "{\"type\":\"array\",\"items\":{\"anyOf\":[{\"type\":\"boolean\"},{\"$ref\":"
              "\"#/components/schemas/Flags\"}]}}"},
};

/* "name":schema, as members of properties. */
#define P_NUMBERS(name) "\"" name "\":" REF("Numbers")
#define P_NUMBER(name)  "\"" name "\":{\"type\":\"number\"}"

static const named_schema parts[] = {
    {"Warning", "{\"description\":\"Legal, but probably not meant.\"," CLOSED
                ",\"required\":[\"code\",\"where\",\"text\"],\"properties\":{\"code\":{\"type\":"
                "\"string\"},\"where\":{\"type\":\"string\"},\"text\":{\"type\":\"string\"}}}"},
    {"HeatmapOfHead",
     "{\"description\":\"Cell (r, c) covers rows origin[0] + r * step[0] and keys origin[1] + c * "
     "step[1] onwards; hidden lists runs [row, from, to) of cells without a visible weight; top "
     "lists [row, col, weight].\"," CLOSED
     ",\"required\":[\"batch\",\"head\",\"shape\",\"origin\",\"step\",\"range\",\"hidden\","
     "\"row_entropy\",\"received\"],\"properties\":{\"batch\":" SIZE ",\"head\":{\"anyOf\":[" SIZE
     ",{\"const\":\"mean\"}]},\"shape\":" PAIR ",\"origin\":" PAIR ",\"step\":" PAIR
     ",\"range\":" NUMBERS ",\"mean_range\":" NUMBERS ",\"max\":" CELLS ",\"mean\":" CELLS
     ",\"hidden\":" RUNS ",\"row_entropy\":" NUMBERS ",\"received\":" NUMBERS
     ",\"top\":{\"type\":\"array\",\"items\":{\"type\":\"array\",\"items\":{\"type\":\"number\"},"
     "\"minItems\":3,\"maxItems\":3}}}}"},
    {"Heatmap", "{" CLOSED ",\"required\":[\"heads\",\"pool\",\"transform\",\"encoding\"],"
                "\"properties\":{\"heads\":" LIST(REF(
                    "HeatmapOfHead")) ",\"labels\":" LABELS ",\"pool\":{\"enum\":[\"max\",\"mean\","
                                      "\"both\"]},\"transform\":{\"enum\":["
                                      "\"linear\",\"sqrt\",\"log\"]},\"encoding\":{\"enum\":["
                                      "\"json\",\"u8\",\"f16\","
                                      "\"f32\"]}}}"},
    {"Diagnostics",
     "{" CLOSED ",\"required\":[\"mask\",\"kept\",\"offsets\",\"dims\",\"score\",\"parameters\","
     "\"scale\",\"softcap\","
     "\"dtype\",\"kernel\",\"cells\",\"operations\",\"bytes\"],\"properties\":{\"mask\":{\"type\":"
     "\"string\"},\"kept\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1},\"offsets\":{\"type\":"
     "\"array\",\"items\":{\"type\":\"integer\"}},\"dims\":{" CLOSED ",\"properties\":{\"B\":" SIZE
     ",\"Hq\":" SIZE ",\"Hkv\":" SIZE ",\"L\":" SIZE ",\"S\":" SIZE ",\"past\":" SIZE ",\"E\":" SIZE
     ",\"Ev\":" SIZE "}},\"score\":{\"type\":\"string\"},\"parameters\":" SIZE
     ",\"scale\":{\"type\":\"number\"},"
     "\"softcap\":{\"type\":\"number\"},\"dtype\":{\"enum\":[\"float32\",\"float64\"]},\"kernel\":"
     "{\"type\":\"string\"},\"cells\":{\"type\":\"number\"},\"operations\":{\"type\":\"number\"},"
     "\"bytes\":{" CLOSED ",\"properties\":{\"work\":" SIZE ",\"result\":" SIZE "}}}}"},
    {"Verification",
     "{\"description\":\"Largest differences of rows that were computed again in float64: of the "
     "output, relative to the largest magnitude of value, and of logsumexp.\"," CLOSED
     ",\"required\":[\"rows\",\"output_error\",\"logsumexp_error\"],\"properties\":{\"rows\":" SIZE
     "," P_NUMBER("output_error") "," P_NUMBER("logsumexp_error") "}}"},
    {"DryRun",
     "{\"description\":\"What a run would answer and take. bytes: result is what the answer holds, "
     "to the byte, work the scratch that is set aside; rnn: multiply-adds of a recurrent layer of "
     "the same width beside those of the scores.\"," CLOSED
     ",\"required\":[\"shapes\",\"cells\",\"operations\",\"bytes\",\"fits\",\"predicted_ms\"],"
     "\"properties\":{\"shapes\":{\"type\":\"object\",\"additionalProperties\":" SIZES
     "},\"mask\":{\"type\":\"string\"}," P_NUMBER("cells") "," P_NUMBER(
         "operations") ",\"bytes\":{" CLOSED ",\"required\":[\"result\",\"work\"],\"properties\":{"
                       "\"with_weights\":" SIZE ",\"without_weights\":" SIZE ",\"result\":" SIZE
                       ",\"work\":" SIZE "}},\"fits\":{\"description\":\"Within the limits of this "
                       "service.\",\"type\":\"boolean\"},"
                       "\"parameters\":" SIZE ",\"rnn\":{" CLOSED
                       ",\"properties\":{" P_NUMBER("operations") "," P_NUMBER(
                           "score_operations") "," P_NUMBER("path_length") "}},\"path_length\":{"
                                                                           "\"const\":1},"
                                                                           "\"predicted_ms\":{"
                                                                           "\"type\":[\"number\","
                                                                           "\"null\"]}}}"},
    {"ExampleEntry",
     "{\"type\":\"object\",\"required\":[\"id\",\"title\",\"what\",\"tags\",\"href\"],"
     "\"properties\":{\"id\":{\"type\":\"string\"},\"title\":{\"type\":\"string\"},\"what\":"
     "{\"type\":\"string\"},\"tags\":" STRINGS ",\"href\":{\"type\":\"string\"}}}"},
    {"Problem",
     "{\"description\":\"An error (RFC 9457).\",\"type\":\"object\",\"required\":[\"type\","
     "\"title\",\"status\",\"detail\",\"code\",\"error\"],\"properties\":{\"type\":{\"type\":"
     "\"string\",\"format\":\"uri-reference\"},\"title\":{\"type\":\"string\"},\"status\":{"
     "\"type\":"
     "\"integer\",\"minimum\":400,\"maximum\":599},\"detail\":{\"type\":\"string\"},\"instance\":"
     "{\"type\":\"string\"},\"code\":{\"description\":\"A stable name of the kind of error.\","
     "\"type\":\"string\"},\"pointer\":{\"description\":\"JSON pointer (RFC 6901) into the body.\","
     "\"type\":\"string\",\"format\":\"json-pointer\"},\"limit\":{\"description\":\"The limit that "
     "was hit and the setting that raises it.\",\"type\":\"object\",\"required\":[\"value\","
     "\"setting\"],\"properties\":{\"value\":{\"type\":\"number\"},\"setting\":{\"type\":"
     "\"string\"}}},\"error\":{\"description\":\"The same as detail.\",\"type\":\"string\"}}}"},
};

static const named_schema
    answers
        [] =
            {
                {"Attention", "{\"description\":\"The tensors that return names, and what else was "
                              "asked for; with dry_run "
                              "only that.\"," CLOSED ",\"properties\":{" P_NUMBERS(
                                  "output") "," P_NUMBERS("weights") "," P_NUMBERS("weights_"
                                                                                   "dropped") "," P_NUMBERS("logsumexp") "," P_NUMBERS("scores") "," P_NUMBERS("present_key") "," P_NUMBERS("present_value") ",\"heatmap\":" REF("Heatmap") ",\"omitted\":" OMITTED("weights") ",\"verification\":" REF("Verification") ","
                                                                                                                                                                                                                                                                                                                        "\""
                                                                                                                                                                                                                                                                                                                        "wa"
                                                                                                                                                                                                                                                                                                                        "rn"
                                                                                                                                                                                                                                                                                                                        "in"
                                                                                                                                                                                                                                                                                                                        "gs"
                                                                                                                                                                                                                                                                                                                        "\""
                                                                                                                                                                                                                                                                                                                        ":" LIST(REF(
                                                                                                                                                                                                                                                                                                                            "Warning")) ",\"diagnostics\":" REF("Diagnostics") ",\"dry_run\":" REF("DryRun") "}}"},
                {"Mask",
                 "{" CLOSED ",\"anyOf\":[{\"required\":[\"shape\",\"keep\",\"kept\",\"words\"]},{"
                 "\"required\":["
                 "\"dry_run\"]}],\"properties\":{"
                 "\"shape\":" SIZES ",\"keep\":{\"description\":\"true = visible; of more than "
                 "65,536 cells as runs [row, "
                 "from, to) of visible keys, null standing for every batch entry or "
                 "head.\",\"anyOf\":[" REF(
                     "Flags") ",{" CLOSED
                              ",\"required\":[\"runs\"],\"properties\":{\"runs\":{\"type\":"
                              "\"array\",\"items\":{" CLOSED
                              ",\"required\":[\"batch\",\"head\",\"runs\"],\"properties\":{"
                              "\"batch\":{\"type\":[\"integer\",\"null\"]},\"head\":{\"type\":["
                              "\"integer\",\"null\"]},"
                              "\"runs\":" RUNS
                              "}}}}}]},\"additive\":{\"description\":\"What is added "
                              "to the scores, null "
                              "where hidden; only when something finite is added.\",\"$ref\":"
                              "\"#/components/schemas/Numbers\"},\"kept\":{\"description\":\"Share "
                              "of "
                              "the cells that are "
                              "visible.\",\"type\":\"number\",\"minimum\":0,\"maximum\":1},"
                              "\"words\":{"
                              "\"type\":\"string\"},"
                              "\"labels\":" LABELS
                              ",\"dry_run\":" REF("DryRun") ",\"omitted\":" OMITTED(
                                  "additive") ",\"warnings\":" LIST(REF("Warning")) "}}"},
                {"Positions",
                 "{\"description\":\"Encodings: [length, width] (rotary: cosines and sines "
                 "[length, "
                 "width/2]); biases: [H, queries, keys]; shaw: [queries, keys, E].\"," CLOSED
                 ",\"properties\":{" P_NUMBERS("table") "," P_NUMBERS("cosines") "," P_NUMBERS(
                     "sines") ",\"curves\":{\"type\":\"array\",\"items\":{" CLOSED
                              ",\"required\":[\"dim\",\"values\"],"
                              "\"properties\":{\"dim\":" SIZE ",\"distances\":" PAIR
                              ",\"values\":" NUMBERS "}}},\"parameters\":" SIZE
                              ",\"dry_run\":" REF("DryRun") "}}"},
                {"Heatmaps",
                 "{" CLOSED ",\"properties\":{\"heads\":" LIST(
                     REF("HeatmapOfHead")) ",\"labels\":" LABELS ",\"pool\":{\"enum\":[\"max\","
                                           "\"mean\",\"both\"]},\"transform\":{"
                                           "\"enum\":[\"linear\",\"sqrt\",\"log\"]},\"encoding\":{"
                                           "\"enum\":[\"json\",\"u8\",\"f16\","
                                           "\"f32\"]},\"warnings\":" LIST(
                                               REF("Warning")) ",\"dry_run\":" REF("DryRun") "}}"},
                {"Examples",
                 "{" CLOSED ",\"required\":[\"examples\"],\"properties\":{\"examples\":" LIST(
                     REF("ExampleEntry")) "}}"},
                {"Example",
                 "{\"description\":\"Requests and what they answer.\",\"type\":\"object\","
                 "\"required\":[\"id\",\"title\",\"what\",\"tags\",\"order\",\"cases\"],"
                 "\"properties\":{\"id\":{\"type\":\"string\"},\"title\":{\"type\":\"string\"},"
                 "\"what\":{\"type\":\"string\"},\"tags\":" STRINGS ",\"order\":{\"type\":"
                 "\"integer\"},\"cases\":{\"type\":\"array\",\"minItems\":1,\"items\":{\"type\":"
                 "\"object\",\"required\":[\"title\",\"method\",\"path\"]}}}}"},
                {"Index",
                 "{\"type\":\"object\",\"required\":[\"service\",\"version\",\"openapi\","
                 "\"routes\","
                 "\"examples\"],\"properties\":{\"service\":{\"const\":\"attnd\"},\"version\":"
                 "{\"type\":\"string\"},\"openapi\":{\"type\":\"string\"},\"try\":{\"type\":"
                 "\"string\"},\"routes\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
                 "\"required\":[\"method\",\"path\",\"summary\"],\"properties\":{\"method\":"
                 "{\"type\":\"string\"},\"path\":{\"type\":\"string\"},\"summary\":{\"type\":"
                 "\"string\"}}}},\"examples\":" LIST(REF("ExampleEntry")) "}}"},
                {"Health",
                 "{\"type\":\"object\",\"required\":[\"status\"],\"properties\":{\"status\":"
                 "{\"type\":\"string\"}}}"},
                {"Version",
                 "{\"type\":\"object\",\"required\":[\"name\",\"version\",\"kernels\",\"limits\","
                 "\"features\"],"
                 "\"properties\":{\"name\":{\"const\":\"attnd\"},\"version\":{\"type\":\"string\"},"
                 "\"kernels\":"
                 "{"
                 "\"description\":\"The table of kernels in use, why, and which this processor "
                 "has.\","
                 "\"type\":\"object\",\"required\":[\"table\",\"reason\",\"available\"],"
                 "\"properties\":{"
                 "\"table\":{\"type\":\"string\"},\"reason\":{\"type\":\"string\"},"
                 "\"available\":" STRINGS "}},\"limits\":{\"description\":\"Limits by the names of "
                 "the settings that change them.\","
                 "\"type\":\"object\",\"additionalProperties\":{\"type\":[\"number\",\"boolean\"]}}"
                 ","
                 "\"features\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"boolean\"}"
                 "}}}"},
                {"Metrics", "{\"description\":\"Prometheus text format.\",\"type\":\"string\"}"},
                {"OpenApi", "{\"type\":\"object\",\"required\":[\"openapi\"]}"},
};

static void write_all(srv_json *j, const named_schema *schemas, size_t count) {
    for (size_t i = 0; i < count; i++) {
        srv_json_key(j, schemas[i].name);
        srv_json_raw(j, schemas[i].text, strlen(schemas[i].text));
    }
}

void srv_schema_components(srv_json *j) {
    write_all(j, tensors, sizeof tensors / sizeof tensors[0]);
    write_all(j, parts, sizeof parts / sizeof parts[0]);
    write_all(j, answers, sizeof answers / sizeof answers[0]);
    srv_v2_schemas(j);
}
