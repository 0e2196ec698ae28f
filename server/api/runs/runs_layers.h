/* The sites that a request about a run selects, and the layers that they are. */
#ifndef SRV_RUNS_LAYERS_H
#define SRV_RUNS_LAYERS_H

#include "api/runs/runs_call.h"

/* Returns the number of the site with this name, or whose number the text is; SIZE_MAX: none. */
size_t srv_run_site_named(const attn_run *run, const char *text);
/* Returns whether layer, kind and stack of the request select the site. `spot` is a member of the decoded
 * struct of `scope`. A site with an axis of layers is selected by each of them. */
bool srv_run_site_selected(const srv_scope *scope, const attn_run *run, size_t index,
                           const srv_run_spot *spot);
/* Refuses `text`, which names no site of the run, in the field `name`. Returns false. */
bool srv_run_no_site(const srv_scope *scope, const attn_run *run, const char *name,
                     const char *text);
/* Lists the sites that site, layer, kind and stack of the request select, at least one. The list is
 * in the arena. false: a problem is set. */
bool srv_run_sites(const srv_scope *scope, const attn_run *run, const srv_run_spot *spot,
                   size_t **out, size_t *count);
/* Returns the field that selects sites most narrowly: layer, stack or kind. */
const char *srv_run_selector(const srv_scope *scope);
/* Checks that the sites are of one kind and stack: other layers do not follow each other. false: a
 * problem is set. */
bool srv_run_one_stack(const srv_scope *scope, const attn_run *run, const size_t *sites,
                       size_t count);
/* Collects the layers that the request selects: those of all selected sites, which must be of one
 * kind and stack, or the one of them that it names. false: a problem is set. */
bool srv_run_layers(const srv_scope *scope, const attn_run *run, const srv_run_spot *spot,
                    attn_run_layers *out);
/* Returns whether the batch entries of the layers are certainly no layers themselves: there is one,
 * or the run has an axis of layers or several sites. */
bool srv_run_layers_are_known(const attn_run *run, const attn_run_layers *layers);
/* Checks the bytes of the run's file that the layers are computed from. false: a problem is set. */
bool srv_run_touch_layers(srv_request *req, const srv_run_view *run, const attn_run_layers *layers);

#endif
