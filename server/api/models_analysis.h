/* The field `analysis` of POST /v1/models/{id}/attention: analyses of all layers and heads, one for
 * each kind of site and each sequence. */
#ifndef SRV_MODELS_ANALYSIS_H
#define SRV_MODELS_ANALYSIS_H

#include "api/models_sites.h"

/* Adds the cost of the analyses to that of the pass, and sets *text to an upper bound of the bytes
 * of their text. Checks nothing and costs nothing if no analysis is requested. false: a problem is
 * set. */
bool srv_sites_analysis_cost(const srv_sites_pass *c, attn_model_cost *cost, double *text);
/* Computes the analyses of the pass. false: a problem is set. */
bool srv_sites_analyse(srv_sites_pass *c);
/* Writes the member "analyses", or prints the analyses. */
void srv_sites_analyses_write(srv_json *j, const srv_sites_pass *c);
void srv_sites_analyses_text(attn_text *t, const srv_sites_pass *c);

#endif
