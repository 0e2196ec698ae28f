/* The tensors of a form put where a JSON body would have them. */
#ifndef SRV_GRAFT_H
#define SRV_GRAFT_H

#include <jansson.h>

#include "wire/container.h"
#include "wire/envelope.h"

/* Each tensor goes into the envelope's side table and its number into the tree, at the place that
 * its name says. false: the problem is set. */
bool srv_graft(srv_request *req, const srv_form *form, const srv_field *fields,
               srv_envelope *envelope, json_t *root);

#endif
