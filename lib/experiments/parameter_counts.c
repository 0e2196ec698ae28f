/* Experiment: parameter counts of the classes in textbooks. The experiment declares each class with
 * the layers of the library, counts its parameters, and compares the count with the formula. */
#include "experiments/lab.h"
#include "layers/layers.h"

enum {
    CLASSES = 9, /* rows of the table of classes */
    PARTS = 8,   /* parts of the model, without the output projection */
    WIDTHS = 16, /* points of a curve */
};

static const attn_setting settings[] = {
    {"width", 512, 512, 2, 8192, true, "width of encoder, decoder and multi-head attention"},
    {"score_width", 256, 256, 1, 8192, true, "width in which additive attention compares"},
    {"num_heads", 8, 8, 1, 64, true, "of multi-head attention; divides both widths"},
    {"positions", 1000, 1000, 1, 100000, true, "longest sequence of learned positions"},
    {"model_width", 256, 256, 2, 1024, true, "width of self-attention and of the model; even"},
    {"num_layers", 2, 2, 1, ATTN_LSTM_LAYERS, true, "of the model's LSTMs"},
    {"source_words", 10000, 10000, 4, 100000, true, "of the model's vocabulary"},
    {"target_words", 8000, 8000, 4, 100000, true, "of the model's vocabulary"},
};

static const attn_column class_columns[] = {
    {"class", "", -1, false},   {"sizes", "", -1, false},     {"parameters", "", 0, false},
    {"formula", "", -1, false}, {"by formula", "", 0, false},
};
static const attn_column part_columns[] = {
    {"part of AttentionSeq2Seq", "", -1, false},
    {"parameters", "", 0, false},
    {"share", "%", 1, false},
};

static size_t model_bytes(const attn_experiment *about, const double *values,
                          attn_model_config *config) {
    size_t bytes = 0;
    *config = attn_model_defaults();
    config->width = (size_t)attn_setting_value(about, values, "model_width");
    config->num_heads = (size_t)attn_setting_value(about, values, "num_heads");
    config->num_layers = (size_t)attn_setting_value(about, values, "num_layers");
    config->source_vocabulary = (size_t)attn_setting_value(about, values, "source_words");
    config->target_vocabulary = (size_t)attn_setting_value(about, values, "target_words");
    return attn_model_bytes(config, false, &bytes, NULL) ? 0 : bytes;
}

static size_t bytes(const attn_experiment *about, const double *values) {
    attn_model_config config;
    return model_bytes(about, values, &config) + ((size_t)4 << 20);
}

static const attn_setting_rule rules[] = {{"width", ATTN_IS_MULTIPLE, NULL, 2},
                                          {"width", ATTN_IS_MULTIPLE, "num_heads", 0},
                                          {"model_width", ATTN_IS_MULTIPLE, NULL, 2},
                                          {"model_width", ATTN_IS_MULTIPLE, "num_heads", 0},
                                          {0}};

/* A class whose parameters are counted: an attention layer of the library, the textbooks'
 * SelfAttention (projections of queries, keys and values with biases, but no output projection), or
 * learned positions. */
typedef struct counted {
    attn_attend attend;            /* attention layer; width 0: none */
    size_t self_width;             /* width of SelfAttention; 0: none */
    size_t positions, their_width; /* number and width of learned positions; 0: none */
} counted;

static double count_parameters(attn_lab *lab, counted what) {
    static const char *const names[] = {"W_q", "W_k", "W_v"};
    attn_parameters *set = attn_parameters_new();
    attn_linear linear;
    attn_embedding table;
    if (!set) {
        attn_lab_no_memory(lab);
        return 0;
    }
    if (what.attend.width)
        attn_attend_declare(&what.attend, set, "attention");
    for (size_t i = 0; what.self_width && i < 3; i++)
        attn_linear_declare(&linear, set, names[i], what.self_width, what.self_width, true);
    if (what.positions)
        attn_positions_declare(&table, set, "positions", what.positions, what.their_width);
    const double found = (double)attn_parameters_count(set, "");
    attn_parameters_free(set);
    return found;
}

static double count_attention(attn_lab *lab, attn_score_kind kind, size_t width, size_t heads,
                              size_t score_width) {
    return count_parameters(
        lab,
        (counted){
            .attend = {.kind = kind, .width = width, .heads = heads, .score_width = score_width}});
}

static void count_classes(attn_lab *lab) {
    const size_t D = attn_lab_size(lab, "width"), A = attn_lab_size(lab, "score_width"),
                 H = attn_lab_size(lab, "num_heads"), N = attn_lab_size(lab, "positions"),
                 M = attn_lab_size(lab, "model_width");
    const double d = (double)D, a = (double)A, n = (double)N, m = (double)M;
    attn_table *t = ATTN_LAB_TABLE(lab, "Parameters of the classes", class_columns, CLASSES);
    const char *wide = attn_lab_say(lab, "d %zu", D),
               *heads = attn_lab_say(lab, "d %zu, %zu heads", D, H);
    attn_lab_row(t, "MultiplicativeAttention dot", wide,
                 count_attention(lab, ATTN_SCORE_dot, D, 1, 0), "0", 0.0);
    attn_lab_row(t, "MultiplicativeAttention general", wide,
                 count_attention(lab, ATTN_SCORE_general, D, 1, 0), "d^2", d * d);
    attn_lab_row(t, "MultiplicativeAttention concat", wide,
                 count_attention(lab, ATTN_SCORE_concat, D, 1, D), "2 d^2 + d", 2 * d * d + d);
    attn_lab_row(t, "AdditiveAttention", attn_lab_say(lab, "d %zu, a %zu", D, A),
                 count_attention(lab, ATTN_SCORE_additive, D, 1, A), "2 d a + a", 2 * d * a + a);
    attn_lab_row(t, "SelfAttention", attn_lab_say(lab, "d %zu", M),
                 count_parameters(lab, (counted){.self_width = M}), "3 (d^2 + d)", 3 * (m * m + m));
    attn_lab_row(t, "MultiHeadAttention", heads,
                 count_attention(lab, ATTN_SCORE_scaled_dot, D, H, 0), "4 (d^2 + d)",
                 4 * (d * d + d));
    attn_lab_row(t, "CausalSelfAttention", heads,
                 count_attention(lab, ATTN_SCORE_scaled_dot, D, H, 0), "4 (d^2 + d)",
                 4 * (d * d + d));
    attn_lab_row(t, "SinusoidalPositionalEncoding", attn_lab_say(lab, "d %zu", D), 0.0, "0", 0.0);
    attn_lab_row(t, "LearnedPositionalEncoding", attn_lab_say(lab, "d %zu, n %zu", D, N),
                 count_parameters(lab, (counted){.positions = N, .their_width = D}), "n d", n * d);
}

/* Makes a model, adds a table of the parameters of its parts, and returns the number of all
 * parameters of the model. */
static double count_parts(attn_lab *lab) {
    static const char *const parts[PARTS] = {
        "src_embedding", "tgt_embedding",   "encoder_lstm", "encoder_attention",
        "decoder_lstm",  "cross_attention", "encoder_norm", "cross_norm"};
    attn_model_config config;
    attn_model *model;
    model_bytes(lab->about, lab->values, &config);
    if (lab->status || !attn_lab_ok(lab, attn_model_new(&config, 0, false, &model, lab->err)))
        return 0;
    const attn_parameters *set = attn_model_parameters(model);
    const double all = (double)attn_parameters_count(set, "");
    attn_table *t = ATTN_LAB_TABLE(
        lab,
        attn_lab_say(lab, "AttentionSeq2Seq: d %zu, %zu heads, %zu layers, %zu and %zu words",
                     config.width, config.num_heads, config.num_layers, config.source_vocabulary,
                     config.target_vocabulary),
        part_columns, PARTS + 2);
    double said = 0;
    for (size_t i = 0; i < PARTS; i++) {
        const double count = (double)attn_parameters_count(set, parts[i]);
        said += count;
        attn_lab_row(t, parts[i], count, 100 * count / all);
    }
    attn_lab_row(t, "output_projection", all - said, 100 * (all - said) / all);
    attn_lab_row(t, "all", all, 100.0);
    attn_model_free(model);
    return all;
}

static void draw_widths(attn_lab *lab) {
    static const struct {
        const char *name;
        attn_score_kind kind;
    } kinds[] = {{"multi-head", ATTN_SCORE_scaled_dot},
                 {"concat", ATTN_SCORE_concat},
                 {"general", ATTN_SCORE_general},
                 {"additive, a = d/2", ATTN_SCORE_additive},
                 {"dot", ATTN_SCORE_dot}};
    attn_picture *p = attn_lab_curves(lab, "parameters", "Parameters of attention by width",
                                      "width d", "million parameters", 1, NULL, 5);
    double x[WIDTHS], y[WIDTHS];
    for (size_t k = 0; k < 5; k++) {
        for (size_t i = 0; i < WIDTHS; i++) {
            const size_t d = 64 * (i + 1);
            x[i] = (double)d;
            y[i] = count_attention(lab, kinds[k].kind, d, 1,
                                   kinds[k].kind == ATTN_SCORE_additive ? d / 2 : d) /
                   1e6;
        }
        attn_lab_curve(lab, p, 0, kinds[k].name, x, y, WIDTHS);
    }
}

static void run(attn_lab *lab) {
    attn_lab_part(lab, 0, 1, "counting");
    count_classes(lab);
    const double all = count_parts(lab);
    draw_widths(lab);
    if (!attn_lab_done(lab, 1))
        return;
    const attn_table *classes = &lab->out->tables[0], *parts = &lab->out->tables[1];
    size_t wrong = 0;
    for (size_t r = 0; r < classes->row_count; r++)
        wrong += classes->entries[5 * r + 2].number != classes->entries[5 * r + 4].number;
    const attn_entry *cross = parts->entries + 3 * 5;
    attn_lab_close(
        lab,
        "Of the %zu classes %zu hold as many numbers as their formula says. A dot product learns "
        "nothing; attention across is %.0f of the model's %.0f parameters (%.1f %%), words and "
        "their projection %.0f (%.1f %%).",
        classes->row_count, classes->row_count - wrong, cross[1].number, all, cross[2].number,
        parts->entries[1].number + parts->entries[4].number + parts->entries[3 * PARTS + 1].number,
        parts->entries[2].number + parts->entries[5].number + parts->entries[3 * PARTS + 2].number);
}

const attn_experiment_row attn_experiment_parameters = {
    .about = {"parameters", "Parameter counts",
              "How many numbers each class of attention learns, by formula and counted, and where "
              "a whole model keeps them.",
              settings, sizeof settings / sizeof *settings, false},
    .run = run,
    .bytes = bytes,
    .rules = rules,
};
