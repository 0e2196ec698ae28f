#include "wire/aliases.h"

#include <string.h>
#include <strings.h>

#define WHOLE    "operands have their whole names"
#define BIASES   "a mask may also be a bias or mark padding, which have fields of their own"
#define COUNTS   "num_heads counts heads, and heads selects them"
#define SELECTS  "heads selects heads, and num_heads counts them"
#define WIDTHS   "every vector of the model has this width"
#define PADDINGS "it is the id of a token in token_ids"
#define STEPS    "training is counted in steps, each of a batch of batch_tokens words"
#define COLOURS  "it names the map from values to colours"

/* An alias may stand for fields of several routes. The first one whose field the route has is
 * used. */
static const srv_alias of_fields[] = {
    {"q", "query", WHOLE},
    {"q", "row", "row and col name a cell, and k is the k of top-k"},
    {"k", "key", WHOLE},
    {"k", "col", "row and col name a cell, and k is the k of top-k"},
    {"v", "value", WHOLE},
    {"values", "attn_mask", "value is the operand of attention"},
    {"x", "query", "self-attention is a request with query alone"},
    {"mask", "attn_mask", BIASES},
    {"attention_mask", "attn_mask", BIASES},
    {"src_mask", "source_mask", "it is a mask of the source's tokens"},
    {"bias", "attn_bias", "it is added to the scores, and projections have biases, too"},
    {"causal", "is_causal", "it is a statement, true or false"},
    {"dropout", "dropout_p", "it is a probability"},
    {"dropout_rate", "dropout_p", "it is a probability"},
    {"sm_scale", "scale", "scores are the only thing that is scaled"},
    {"logit_cap", "softcap", "it is a soft limit"},
    {"attn_logits_soft_cap", "softcap", "scores are the only thing that has a limit"},
    {"need_weights", "return", "return lists the parts of the answer"},
    {"return_weights", "return", "return lists the parts of the answer"},
    {"output_attentions", "return", "return lists the parts of the answer"},
    {"attentions", "weights", "the answer of attention calls them so"},
    {"attention_weights", "weights", "the answer of attention calls them so"},
    {"pad_idx", "pad_id", PADDINGS},
    {"padding_idx", "pad_id", PADDINGS},
    {"pad_token_id", "pad_id", PADDINGS},
    {"ids", "token_ids", "they are the ids of tokens"},
    {"input_ids", "token_ids", "they are the ids of tokens"},
    {"decoder_input_ids", "target_ids", "they are the ids of the target's tokens"},
    {"seq_lens", "key_lengths", "they bound the keys, and queries have no lengths"},
    {"valid_lens", "key_lengths", "they bound the keys, and queries have no lengths"},
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
    {"num_heads", "heads", SELECTS},
    {"head", "heads", "it selects any number of heads"},
    {"n_layers", "layers", "it is the number of layers of each side"},
    {"num_layers", "layers", "it is the number of layers of each side"},
    {"max_len", "max_length", "names are not shortened"},
    {"max_new_tokens", "max_length", "it bounds the words of the answer"},
    {"seq_len", "length", "a table of positions has one sequence"},
    {"learning_rate", "rate", "a training job has no other rate"},
    {"lr", "rate", "a training job has no other rate"},
    {"epochs", "steps", STEPS},
    {"num_epochs", "steps", STEPS},
    {"batch_size", "batch_tokens", "batches are filled up to a number of words"},
    {"warmup_steps", "warmup", "it is counted in steps as all else"},
    {"weight_decay", "decay", "weights are the only thing that decays"},
    {"grad_clip", "clip", "gradients are the only thing that is clipped"},
    {"label_smoothing", "smoothing", "labels are the only thing that is smoothed"},
    {"prompt", "text", "a translation has no prompt: it is the text of the source"},
    {"input", "text", "it is the text of the source"},
    {"num_beams", "beams", "a beam search has no other beams"},
    {"beam_width", "beams", "a beam search has no other beams"},
    {"cmap", "colormap", COLOURS},
    {"colorscale", "colormap", COLOURS},
    {"colorbar", "colour_bar", "names have British spelling"},
    {"figsize", "width", "width and height of a picture are two fields"},
    {"xlabel", "x_label", "words are separated by underscores"},
    {"ylabel", "y_label", "words are separated by underscores"},
    {0},
};

static const srv_alias of_choices[] = {
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
    {"logits", "scores", "logits are the outputs of a model"},
    {"lse", "logsumexp", "names are not shortened"},
    {"bfloat16", "bf16", "it is a precision of products and not an element type"},
    {"float32", "fp32", "it is a precision of products and not an element type"},
    {0},
};

const srv_alias *srv_alias_of_field(const char *other, const srv_field *fields) {
    for (const srv_alias *a = of_fields; a->other; a++)
        if (!strcasecmp(a->other, other) && srv_find_field(fields, a->name, strlen(a->name)))
            return a;
    return NULL;
}

const srv_alias *srv_alias_of_choice(const char *other, const char *const *choices) {
    for (const srv_alias *a = of_choices; a->other; a++)
        for (size_t i = 0; choices[i] && !strcasecmp(a->other, other); i++)
            if (!strcmp(choices[i], a->name))
                return a;
    return NULL;
}
