#include "wire/aliases.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "config/nearest.h"

#define WHOLE       "operands have their whole names"
#define BIASES      "a mask may also be a bias or mark padding, which have fields of their own"
#define COUNTS      "num_heads counts heads, and heads selects them"
#define NUMBERS     "numbers of things are called num_.."
#define SELECTS     "heads selects heads, and num_heads counts them"
#define WIDTHS      "every vector has this width"
#define PADDINGS    "it is the id of a token in token_ids"
#define STEPS       "training is counted in steps, each of a batch of batch_tokens words"
#define COLOURS     "it names the map from values to colours"
#define SINGULAR    "names are in the singular"
#define STATED      "\"is_causal\": true makes a causal mask, and a mask of your own is attn_mask"
#define LISTED      "return lists the parts of the answer"
#define LOGSUMEXP   "return lists the parts of the answer: \"return\": [\"output\", \"logsumexp\"]"
#define WEIGHTS     "they are a part of the answer: \"return\": [\"output\", \"weights\"]"
#define ONLY_SCALED "scores are the only thing that is scaled"
#define ONLY_CAPPED "scores are the only thing that has a limit"
#define SIDES       "it has two numbers, the keys before and the keys after the position of a query"
#define SINKS       "a head may have a sink, one more logit without a value"
#define KEY_LENGTHS "it holds the number of keys of each batch entry"
#define PAGES       "it has the blocks of each batch entry, in the order of its keys"
#define PACKED      "query_lengths holds the queries of each batch entry in a packed query"
#define SUMS                                                                                       \
    "cu_seqlens holds the sums of queries and then of keys, [2, B + 1], or those of both alike"
#define QUERIES                                                                                    \
    "padding queries need no mask: key_lengths hides the padding keys of each batch entry, and "   \
    "the output rows of padding queries can be ignored"
#define KEY_POSITIONS                                                                              \
    "query_positions and key_positions hold the position of each query and of each key, and "      \
    "query_offset is the position of the first query"
#define ROTARY                                                                                     \
    "each axis of rotary positions is an object of the list axes: \"axes\": [{\"positions\": .., " \
    "\"num_pairs\": ..}, ..]"
#define DOCUMENTS                                                                                  \
    "document_ids has the document of each key of sequences that stand one after the other; as "   \
    "batch entries they need padding and key_lengths"
#define PREFIXES  "one length for each batch entry, or one for all"
#define SEGMENTS  "it has the document of each key, and hides the keys of the other documents"
#define CELL      "row and col name a cell: a query and a key"
#define POOLED    "it says how weights become a cell: max, mean or both"
#define STRONGEST "it is a number of strongest keys on every route"
#define TOKENS    "it is a mask of tokens, and a name without target_ belongs to the source"
#define LINEAR                                                                                     \
    "linear attention carries a state from key to key and has no weights of a row; a decay by "    \
    "position is attn_bias, as in the Forgetting Transformer"
#define STICKS                                                                                     \
    "in stick-breaking attention a weight depends on the scores of the keys behind it, so a row "  \
    "cannot be computed key by key in any order; it is not computed here"
#define STOCHASTIC                                                                                 \
    "doubly stochastic weights are divided by rows and columns in turn, which needs the whole "    \
    "matrix of weights; it is not computed here"
#define SLOTS                                                                                      \
    "a softmax over the queries needs the scores of all queries for one weight: exchange query "   \
    "and key, and read the weights by columns"
#define PARTS                                                                                      \
    "any_of, all_of and not hold the masks that they combine, and the fields of masks that stand " \
    "side by side are combined by and"
#define CACHE "cached keys and values are two fields, past_key and past_value"
#define SEARCHED                                                                                   \
    "with seed each token is drawn; without it the search is greedy, or a beam search with "       \
    "num_beams above 1"
#define BESIDE(name) "it is a member of figure: \"figure\": {\"" name "\": ..}"
#define IN_MASKS                                                                                   \
    "masks are a list of objects, one for each mask: \"masks\": [{\"kind\": \"causal\"}]"
#define DTYPE                                                                                      \
    "the element type belongs to a tensor: {\"dtype\": \"float64\", \"data\": [..]} as one "       \
    "input makes the whole operation float64, and plain lists are rounded to float32"

typedef struct alias {
    const char *other; /* the name in other programs */
    const char *name;  /* the name here */
    const char *text;  /* the reason in "here it is called <name>, because <text>"; in the tables
                        * advice_of_…, the whole advice */
} alias;

/* A name `other` may have several rows, for fields of several routes. The decoder uses the first of
 * these rows whose `name` is in the field table of the request. Therefore a row whose field belongs
 * to few routes must stand before a row whose field belongs to many. */
static const alias of_fields[] = {
    {"planes", "pool", POOLED},
    {"pooling", "pool", POOLED},
    {"cells", "max_side", "it bounds the rows and the columns of a thumbnail"},
    {"range", "range_of", "it says whose range is taken, and vmin and vmax are two numbers"},
    {"range", "vmin", "vmin and vmax are two numbers"},
    {"clim", "vmin", "vmin and vmax are two numbers"},
    {"k", "top_k", STRONGEST},
    {"p", "top_p", "they are the fewest keys that hold this mass"},
    {"top_keys", "top_k", STRONGEST},
    {"q", "query", WHOLE},
    {"q", "row", CELL},
    {"query", "row", CELL},
    {"k", "key", WHOLE},
    {"k", "col", CELL},
    {"key", "col", CELL},
    {"v", "value", WHOLE},
    {"values", "value", SINGULAR},
    {"values", "attn_mask", "the kind is called values"},
    {"queries", "query", SINGULAR},
    {"keys", "num_keys", NUMBERS},
    {"keys", "key", SINGULAR},
    {"encoder_outputs", "key", "attention reads them as key and as value"},
    {"encoder_output", "key", "attention reads it as key and as value"},
    {"encoder_hidden_states", "key", "attention reads them as key and as value"},
    {"decoder_hidden", "query", "attention compares it with the keys"},
    {"decoder_hidden_states", "query", "attention compares them with the keys"},
    {"decoder_state", "query", "attention compares it with the keys"},
    {"m", "attn_mask", BIASES},
    {"x", "query", "self-attention is a request with query alone"},
    {"mask", "masks", "a mask is combined of any number of them"},
    {"mask", "attn_mask", BIASES},
    {"attention_mask", "attn_mask", BIASES},
    {"attention_mask", "token_mask", TOKENS},
    {"mask", "token_mask", TOKENS},
    {"source_mask", "token_mask", TOKENS},
    {"src_mask", "token_mask", TOKENS},
    {"bias", "attn_bias", "it is added to the scores, and projections have biases, too"},
    {"causal", "is_causal", "it is a statement, true or false"},
    {"dropout", "dropout_p", "it is a probability"},
    {"dropout_rate", "dropout_p", "it is a probability"},
    {"attention_dropout", "attention_dropout_p", "it is a probability"},
    {"scales", "scale", SINGULAR},
    {"sm_scale", "scale", ONLY_SCALED},
    {"softmax_scale", "scale", ONLY_SCALED},
    {"logit_cap", "softcap", "it is a soft limit"},
    {"attn_logits_soft_cap", "softcap", ONLY_CAPPED},
    {"logits_soft_cap", "softcap", ONLY_CAPPED},
    {"attn_logit_softcapping", "softcap", ONLY_CAPPED},
    {"segment_ids", "document_ids", SEGMENTS},
    {"prefix_length", "prefix_lengths", PREFIXES},
    {"prefix_len", "prefix_lengths", PREFIXES},
    {"topk_indices", "top_k_indices", "each query has a list of the keys that it sees"},
    {"or", "any_of", "a key is visible if any of the masks of its list shows it"},
    {"sliding_window", "window", SIDES "; W keys up to the query itself are [W - 1, 0]"},
    {"window_size", "window", SIDES},
    {"local_window_size", "window", SIDES},
    {"s_aux", "sinks", SINKS},
    {"learnable_sink", "sinks", SINKS},
    {"head_sink", "sinks", SINKS},
    {"attn_sink", "sinks", SINKS},
    {"alibi_slopes", "slopes", "it is a parameter of the position alibi"},
    {"rope_theta", "base", "it is a parameter of the position rotary"},
    {"rope_scaling", "scaling", "it is a parameter of the position rotary"},
    {"rope_parameters", "scaling", "it is a parameter of the position rotary"},
    {"inv_freq", "frequencies", "it is a parameter of the position rotary"},
    {"attention_scaling", "factor", "it is a parameter of the position rotary"},
    {"rope_type", "kind", "the rope_type of a config.json is the kind of a scaling"},
    {"q_offset", "query_offset", WHOLE},
    {"mask_value", "mask_fill", "it is the number in place of -infinity in hidden cells"},
    {"rotary", "position", "rotary is a kind of position"},
    {"rope", "position", "rotary is a kind of position"},
    {"alibi", "position", "alibi is a kind of position"},
    {"need_weights", "return", LISTED},
    {"return_weights", "return", LISTED},
    {"return_attention_weights", "return", LISTED},
    {"return_attention_scores", "return", LISTED},
    {"return_scores", "return", LISTED},
    {"output_attentions", "return", LISTED},
    {"return_lse", "return", LOGSUMEXP},
    {"return_softmax_lse", "return", LOGSUMEXP},
    {"attn_weights", "weights", "the answer of attention calls them so"},
    {"attentions", "weights", "the answer of attention calls them so"},
    {"attention_weights", "weights", "the answer of attention calls them so"},
    {"pad_idx", "pad_id", PADDINGS},
    {"padding_idx", "pad_id", PADDINGS},
    {"pad_token_id", "pad_id", PADDINGS},
    {"ids", "token_ids", "they are the ids of tokens"},
    {"target_ids", "target_token_ids", "the name for the source stands behind target_"},
    {"input_ids", "token_ids", "they are the ids of tokens"},
    {"decoder_input_ids", "target_token_ids", "they are the ids of the target's tokens"},
    {"seq_lens", "key_lengths", "they bound the keys of a padded batch"},
    {"valid_lens", "key_lengths", "they bound the keys of a padded batch"},
    {"block_tables", "block_table", PAGES},
    {"page_table", "block_table", PAGES},
    {"kv_layout", "block_layout", "it says whether rows or heads come first in a block"},
    {"cache_seqlens", "key_lengths", KEY_LENGTHS},
    {"context_lens", "key_lengths", KEY_LENGTHS},
    {"seqlens_k", "key_lengths", KEY_LENGTHS "; in ONNX Runtime that number minus 1"},
    {"nonpad_kv_seqlen", "key_lengths", KEY_LENGTHS},
    {"key_value_seq_lengths", "key_lengths", KEY_LENGTHS},
    {"W1", "w_k",
     "it multiplies the keys, and w_q multiplies the query; programs number the two "
     "differently"},
    {"W2", "w_q",
     "it multiplies the query, and w_k multiplies the keys; programs number the two "
     "differently"},
    {"U", "w_k", "it multiplies the keys"},
    {"d_model", "width", WIDTHS},
    {"embed_dim", "width", WIDTHS},
    {"hidden_size", "width", WIDTHS},
    {"d_ff", "feed_forward", "it is the width inside the feed-forward layer"},
    {"dim_feedforward", "feed_forward", "it is the width inside the feed-forward layer"},
    {"heads", "num_heads", COUNTS},
    {"n_heads", "num_heads", COUNTS},
    {"n_head", "num_heads", COUNTS},
    {"nhead", "num_heads", COUNTS},
    {"num_attention_heads", "num_heads", COUNTS},
    {"num_key_value_heads", "num_kv_heads", COUNTS},
    {"kv_heads", "num_kv_heads", COUNTS},
    {"num_heads", "heads", SELECTS},
    {"head", "heads", "it selects any number of heads"},
    {"layers", "num_layers", NUMBERS},
    {"n_layers", "num_layers", NUMBERS},
    {"num_layers", "layers", "layers selects layers, and num_layers counts them"},
    {"global_keys", "num_global_keys", NUMBERS},
    {"src_vocab_size", "source_vocabulary", "it is the number of ids of the source"},
    {"tgt_vocab_size", "target_vocabulary", "it is the number of ids of the target"},
    {"max_len", "max_length", "names are not shortened"},
    {"max_len", "length", "it is the number of positions"},
    {"max_tokens", "max_length", "it bounds the tokens of the answer, the end included"},
    {"max_new_tokens", "max_length", "it bounds the words of the answer"},
    {"seq_len", "length", "a table of positions has one sequence"},
    {"learning_rate", "rate", "a training job has no other rate"},
    {"lr", "rate", "a training job has no other rate"},
    {"steps", "num_steps", NUMBERS},
    {"epochs", "num_steps", STEPS},
    {"num_epochs", "num_steps", STEPS},
    {"pairs", "num_pairs", NUMBERS},
    {"symbols", "num_symbols", NUMBERS},
    {"validation", "num_validation_pairs", NUMBERS},
    {"scored", "num_scored_pairs", NUMBERS},
    {"queries", "num_queries", NUMBERS},
    {"sentences", "num_sentences", NUMBERS},
    {"words", "num_words", NUMBERS},
    {"permutations", "num_permutations", NUMBERS},
    {"batch_size", "batch_tokens", "batches are filled up to a number of words"},
    {"warmup_steps", "warmup", "it is counted in steps as all else"},
    {"weight_decay", "decay", "weights are the only thing that decays"},
    {"grad_clip", "clip", "gradients are the only thing that is clipped"},
    {"label_smoothing", "smoothing", "labels are the only thing that is smoothed"},
    {"prompt", "text", "a translation has no prompt: it is the text of the source"},
    {"input", "text", "it is the text of the source"},
    {"beams", "num_beams", NUMBERS},
    {"beam_width", "num_beams", NUMBERS},
    {"alternatives", "num_alternatives", NUMBERS},
    {"xticklabels", "labels", "labels.key names the columns, and labels.query the rows"},
    {"yticklabels", "labels", "labels.query names the rows, and labels.key the columns"},
    {"label", "names", "names has one name for each curve"},
    {"labels", "names", "names has one name for each curve"},
    {"legend", "names", "names has one name for each curve"},
    {"y", "values", "a table of values may hold several curves"},
    {"cmap", "colormap", COLOURS},
    {"colorscale", "colormap", COLOURS},
    {"colour_bar", "colorbar", "it is called so by Matplotlib, as colormap is"},
    {"xlabel", "x_label", "words are separated by underscores"},
    {"ylabel", "y_label", "words are separated by underscores"},
    {0},
};

/* Fields of other programs that correspond to no single field here. The advice is given if the
 * field table of the request has the field `name`. */
static const alias advice_of_fields[] = {
    {"kind", "masks", IN_MASKS},
    {"is_causal", "masks", IN_MASKS},
    {"causal", "masks", IN_MASKS},
    {"attn_mask", "masks",
     "it belongs to a mask in the list: \"masks\": [{\"kind\": \"values\", \"attn_mask\": ..}]"},
    {"do_sample", "seed", SEARCHED},
    {"messages", "text",
     "templates of chats are programs and are not run: send as text what the template would make "
     "of the messages"},
    {"causal_mask", "is_causal", STATED},
    {"look_ahead_mask", "is_causal", STATED},
    {"dropout", "slopes",
     "tables have no dropout; position of /v1/attention takes dropout_p and seed for x plus the "
     "encoding"},
    {"is_training", "dropout_p",
     "only dropout differs in training, and it takes place if dropout_p is above 0"},
    {"training", "dropout_p",
     "only dropout differs in training, and it takes place if dropout_p is above 0"},
    {"dtype", "precision", DTYPE},
    {"attn_weights", "return", WEIGHTS},
    {"attention_weights", "return", WEIGHTS},
    {"attentions", "return", WEIGHTS},
    {"weights", "return", WEIGHTS},
    {"softmax", "normalizer",
     "the weights are the softmax over the keys unless normalizer says otherwise: "
     "\"return\": [\"weights\"] answers them"},
    {"stick_breaking", "normalizer", STICKS},
    {"sinkhorn", "normalizer", STOCHASTIC},
    {"sinkformer", "normalizer", STOCHASTIC},
    {"doubly_stochastic", "normalizer", STOCHASTIC},
    {"feature_map", "score", LINEAR},
    {"linear_attention", "score", LINEAR},
    {"recurrent", "score", LINEAR},
    {"retention", "score", LINEAR},
    {"decay", "score", LINEAR},
    {"masks", "any_of", PARTS},
    {"axis", "divisor", SLOTS},
    {"query_seq_lengths", "query_lengths", PACKED},
    {"seqlens_q", "query_lengths", PACKED},
    {"query_lengths", "key_lengths", QUERIES},
    {"query_seq_lengths", "key_lengths", QUERIES},
    {"seqlens_q", "key_lengths", QUERIES},
    {"query_padding_mask", "key_lengths", QUERIES},
    {"past_key_value", "past_key", CACHE},
    {"past_key_values", "past_key", CACHE},
    {"alibi_slopes", "position",
     "it belongs to position: \"position\": {\"kind\": \"alibi\", \"slopes\": ..}"},
    {"rope_theta", "position",
     "it belongs to position: \"position\": {\"kind\": \"rotary\", \"layout\": .., \"base\": ..}"},
    {"rope_scaling", "position",
     "it belongs to position: \"position\": {\"kind\": \"rotary\", \"layout\": .., \"scaling\": "
     "..}"},
    {"mrope_section", "axes", ROTARY},
    {"position_ids", "query_offset", KEY_POSITIONS},
    {"position_ids", "axes", ROTARY},
    {"cache_position", "query_offset", KEY_POSITIONS},
    {"cu_seqlens_q", "cu_seqlens", SUMS},
    {"cu_seqlens_k", "cu_seqlens", SUMS},
    {"cu_seq_lens_q", "cu_seqlens", SUMS},
    {"cu_seq_lens_k", "cu_seqlens", SUMS},
    {"qo_indptr", "cu_seqlens", SUMS},
    {"kv_indptr", "cu_seqlens", SUMS},
    {"cu_seqlens", "document_ids", DOCUMENTS},
    {"cu_seqlens_q", "document_ids", DOCUMENTS},
    {"cu_seqlens_k", "document_ids", DOCUMENTS},
    {"cmap", "figure", BESIDE("colormap")},
    {"colorbar", "figure", BESIDE("colorbar")},
    {"colour_bar", "figure", BESIDE("colorbar")},
    {"figsize", "height", "width and height of a picture are two fields"},
    {"figsize", "figure",
     "the size is two members of figure: \"figure\": {\"width\": .., \"height\": ..}"},
    {"title", "figure", BESIDE("title")},
    {"xlabel", "figure", BESIDE("x_label")},
    {"x_label", "figure", BESIDE("x_label")},
    {"ylabel", "figure", BESIDE("y_label")},
    {"y_label", "figure", BESIDE("y_label")},
    {0},
};

static const alias of_choices[] = {
    {"bahdanau", "additive", "a form is named by its formula, v . tanh(W_q q + W_k k)"},
    {"luong", "general",
     "a form is named by its formula, k . (W q); Luong et al. also have dot and "
     "concat"},
    {"multiplicative", "general", "a form is named as by Luong et al., k . (W q)"},
    {"bilinear", "general", "a form is named as by Luong et al., k . (W q)"},
    {"scaled_dot_product", "scaled_dot", "scores are the only products"},
    {"sdpa", "scaled_dot", "names are not shortened"},
    {"rope", "rotary", "names are not shortened"},
    {"sliding_window", "local", "a pattern shows the keys nearby"},
    {"sin", "sinusoidal", "names are not shortened"},
    {"attentions", "weights", "they are the weights of attention"},
    {"attention_weights", "weights", "they are the weights of attention"},
    {"result", "output", "it is what attention puts out"},
    {"of", "num_visible_keys", NUMBERS},
    {"logits", "scores", "logits are the outputs of a model"},
    {"lse", "logsumexp", "names are not shortened"},
    {"bfloat16", "bf16", "it is a precision of products and not an element type"},
    {"float32", "fp32", "it is a precision of products and not an element type"},
    {0},
};

static const alias advice_of_choices[] = {
    /* kinds of score and of normalizer that this service does not offer */
    {"linear", "scaled_dot", LINEAR},
    {"linear", "softmax", LINEAR},
    {"linear_attention", "scaled_dot", LINEAR},
    {"linear_attention", "softmax", LINEAR},
    {"recurrent", "scaled_dot", LINEAR},
    {"recurrent", "softmax", LINEAR},
    {"retention", "scaled_dot", LINEAR},
    {"retention", "softmax", LINEAR},
    {"retnet", "scaled_dot", LINEAR},
    {"retnet", "softmax", LINEAR},
    {"gla", "scaled_dot", LINEAR},
    {"gla", "softmax", LINEAR},
    {"mamba", "scaled_dot", LINEAR},
    {"mamba", "softmax", LINEAR},
    {"delta_rule", "scaled_dot", LINEAR},
    {"delta_rule", "softmax", LINEAR},
    {"gated_delta_rule", "scaled_dot", LINEAR},
    {"gated_delta_rule", "softmax", LINEAR},
    {"stick_breaking", "scaled_dot", STICKS},
    {"stick_breaking", "softmax", STICKS},
    {"sinkhorn", "scaled_dot", STOCHASTIC},
    {"sinkhorn", "softmax", STOCHASTIC},
    {"sinkformer", "scaled_dot", STOCHASTIC},
    {"sinkformer", "softmax", STOCHASTIC},
    {"doubly_stochastic", "scaled_dot", STOCHASTIC},
    {"doubly_stochastic", "softmax", STOCHASTIC},
    {"slot", "softmax", SLOTS},
    {"slots", "softmax", SLOTS},
    {"mask", "weights_dropped", "the mask itself is what POST /v1/masks answers"},
    {"float64", "fp32", DTYPE},
    {"fp64", "fp32", DTYPE},
    {"double", "fp32", DTYPE},
    {"or", "and", "a mask of kind any_of shows what one of its masks shows"},
    {0},
};

static bool is_field(const char *name, const void *fields) {
    return srv_find_field(fields, name, strlen(name));
}

static bool is_choice(const char *name, const void *choices) {
    for (const char *const *choice = choices; *choice; choice++)
        if (!strcmp(*choice, name))
            return true;
    return false;
}

/* Returns whether two names are equal apart from upper and lower case, hyphens and underscores. */
static bool is_same_name(const char *a, const char *b) {
    for (;; a++, b++) {
        a += strspn(a, "_-");
        b += strspn(b, "_-");
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

/* Returns the first row for the name `other` whose `name` satisfies has(name, known). NULL: there
 * is none. */
static const alias *row_for(const alias *rows, const char *other,
                            bool (*has)(const char *name, const void *known), const void *known) {
    for (; rows->other; rows++)
        if (is_same_name(rows->other, other) && has(rows->name, known))
            return rows;
    return NULL;
}

static const char *alias_sentence(const alias *called, const alias *advice, char *text,
                                  size_t room) {
    if (called)
        snprintf(text, room, "here it is called \"%s\", because %s", called->name, called->text);
    else if (advice)
        snprintf(text, room, "%s", advice->text);
    return called || advice ? text : NULL;
}

/* Does what srv_alias_of_choice does, for the name of a field instead of a choice. */
static const char *alias_of_field(const char *other, const srv_field *fields, char *text,
                                  size_t room) {
    return alias_sentence(row_for(of_fields, other, is_field, fields),
                          row_for(advice_of_fields, other, is_field, fields), text, room);
}

const char *srv_alias_of_choice(const char *other, const char *const *choices, char *text,
                                size_t room) {
    return alias_sentence(row_for(of_choices, other, is_choice, choices),
                          row_for(advice_of_choices, other, is_choice, choices), text, room);
}

/* --- unknown fields --- */

/* Returns the row of an object that has a field of this name. NULL: there is none. */
static const srv_field *owner_of(const srv_field *fields, const char *name) {
    for (; fields->name; fields++)
        if (fields->kind == SRV_OBJECT && fields->fields &&
            srv_find_field(fields->fields, name, strlen(name)))
            return fields;
    return NULL;
}

void srv_unknown_field(srv_request *req, const char *pointer, const char *name,
                       const srv_field *fields) {
    const char *names[SRV_FIELDS_MOST];
    char text[SRV_ALIAS_ROOM];
    size_t count = 0;
    for (; fields[count].name && count < SRV_FIELDS_MOST; count++)
        names[count] = fields[count].name;
    const char *advice = alias_of_field(name, fields, text, sizeof text);
    const srv_field *owner = advice ? NULL : owner_of(fields, name);
    const char *near = advice || owner ? NULL : srv_nearest(name, names, count);
    if (advice)
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer, "\"%.100s\" is not a field here; %s", name,
                    advice);
    else if (owner)
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer,
                    "\"%.100s\" is not a field here; it is one of \"%s\"", name, owner->name);
    else if (near)
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer,
                    "\"%.100s\" is not a field here; did you mean \"%s\"?", name, near);
    else
        srv_problem(req, SRV_UNKNOWN_FIELD, pointer,
                    "\"%.100s\" is not a field here; /openapi.json lists them", name);
}
