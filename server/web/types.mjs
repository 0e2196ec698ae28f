// Makes src/api/schema.d.ts of an openapi.json: node types.mjs OPENAPI OUT.
// A list that holds lists of its own kind has no type in TypeScript unless it has a name, so such
// schemas become Nested<T> (openapi-typescript issue 1603).
import * as fs from 'node:fs';
import openapiTS, { astToString } from 'openapi-typescript';
import ts from 'typescript';

const [from, to] = process.argv.slice(2);
const document = JSON.parse(fs.readFileSync(from, 'utf8'));

const names = { string: 'string', number: 'number', integer: 'number', boolean: 'boolean', null: 'null' };

// The types of the leaves of a list that may hold itself; null: it is no such list.
function leaves(schema, path) {
  const items = schema.type === 'array' ? schema.items?.anyOf : undefined;
  if (!Array.isArray(items) || !items.some((item) => item.$ref === path)) return null;
  return items.filter((item) => item.$ref !== path).flatMap((item) => item.type);
}

const ast = await openapiTS(document, {
  defaultNonNullable: false,
  inject: 'type Nested<T> = (T | Nested<T>)[];',
  transform(schema, { path }) {
    const types = leaves(schema, path);
    if (!types) return undefined;
    const union = ts.factory.createUnionTypeNode(types.map((type) => ts.factory.createTypeReferenceNode(names[type])));
    return ts.factory.createTypeReferenceNode('Nested', [union]);
  },
});
fs.writeFileSync(to, astToString(ast));
