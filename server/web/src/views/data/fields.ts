// The fields of POST /v1/attention, from the schema that the service publishes.
import { signal } from '@preact/signals';
import { askJson } from '../../api/client';

interface Schema {
  $ref?: string;
  description?: string;
  type?: string | string[];
  enum?: (string | null)[];
  anyOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
}

interface OpenApi {
  paths: Record<string, Record<string, { requestBody?: { content: Record<string, { schema: Schema }> } }>>;
  components: { schemas: Record<string, Schema> };
}

export type Kind = 'flag' | 'choice' | 'number' | 'tensor' | 'json';

export interface Field {
  name: string;
  description: string;
  kind: Kind;
  group: Group;
  choices: string[]; // texts that need no quotes
  whole: boolean;
  min: number | undefined;
  max: number | undefined;
  usual: boolean; // of a flag: its value where it is absent
}

export const groups = ['tensors', 'masks', 'scores', 'output'] as const;
export type Group = (typeof groups)[number];

// A field that is named nowhere here stands with the output.
const members: Record<Exclude<Group, 'output'>, string> = {
  tensors:
    'query key value past_key past_value block_table layout num_heads num_kv_heads enable_gqa projections ' +
    'grad_output grad_logsumexp labels axes',
  masks:
    'is_causal window query_offset attn_mask mask_semantics mask_fill key_padding_mask ' +
    'key_padding_semantics key_lengths token_ids pad_id pattern document_ids prefix_lengths parents ' +
    'top_k_indices any_of all_of not',
  scores:
    'score position query_positions key_positions mask_positions normalizer mix subtract scale softcap sinks attn_bias ' +
    'dropout_p seed precision allow_nonfinite',
};

function groupOf(name: string): { group: Group; order: number } {
  for (const group of groups) {
    const order = group === 'output' ? -1 : members[group].split(' ').indexOf(name);
    if (order >= 0) return { group, order };
  }
  return { group: 'output', order: 100 };
}

const typesOf = (schema: Schema): string[] =>
  (Array.isArray(schema.type) ? schema.type : schema.type ? [schema.type] : []).filter((t) => t !== 'null');

function fieldOf(name: string, schema: Schema): Field {
  const forms = schema.anyOf ?? [schema];
  const types = typesOf(schema);
  const description = schema.description ?? '';
  const choices = forms.flatMap((form) => form.enum ?? []).filter((x): x is string => typeof x === 'string');
  const isTensor = forms.some((form) => /Tensor$/.test(form.$ref ?? ''));
  const isNumber = types.length === 1 && (types[0] === 'integer' || types[0] === 'number');
  const kind: Kind = isTensor
    ? 'tensor'
    : schema.enum
      ? 'choice'
      : types.length === 1 && types[0] === 'boolean'
        ? 'flag'
        : isNumber
          ? 'number'
          : 'json';
  return {
    name,
    description,
    kind,
    choices,
    group: groupOf(name).group,
    whole: types[0] === 'integer',
    min: schema.minimum ?? schema.exclusiveMinimum,
    max: schema.maximum ?? schema.exclusiveMaximum,
    usual: /^true \(default\)/.test(description),
  };
}

export const fields = signal<Field[]>([]);
export const trouble = signal('');

export async function load(): Promise<void> {
  if (fields.value.length) return;
  try {
    const document = await askJson<OpenApi>('openapi.json');
    const schema = document.paths['/v1/attention']?.post?.requestBody?.content['application/json']?.schema;
    const named = /^#\/components\/schemas\/(\w+)$/.exec(schema?.$ref ?? '')?.[1];
    const request = named ? document.components.schemas[named] : schema;
    if (!request?.properties) throw new Error('openapi.json has no fields of /v1/attention');
    const made = Object.entries(request.properties).map(([name, of]) => fieldOf(name, of));
    fields.value = made.sort(
      (a, b) =>
        groups.indexOf(a.group) - groups.indexOf(b.group) || groupOf(a.name).order - groupOf(b.name).order,
    );
    trouble.value = '';
  } catch (error) {
    trouble.value = (error as Error).message;
  }
}
