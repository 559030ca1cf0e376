// What the drivers share: one JSON question on stdin, one JSON answer on stdout.

import { text } from "node:stream/consumers";

/** Answer {schemas: {name: schema}, documents: [{name, schema, ...}]} with {document: answer}. */
export async function answer(judge) {
  const pairs = await judge(JSON.parse(await text(process.stdin)));
  process.stdout.write(JSON.stringify(Object.fromEntries(pairs)));
}

/** The settings of a language service: the schema NAME serves the files below /NAME/. */
export function settings(schemas) {
  const associations = Object.entries(schemas).map(([name, schema]) => ({
    uri: schema.$id,
    fileMatch: [`/${name}/*`],
    schema,
  }));
  return { validate: true, schemas: associations };
}

/** The place of a document that the schema NAME serves. */
export const place = ({ schema, name }) => `file:///${schema}/${name}`;

/** Serves our schemas by their public address, and nothing else. */
export function library(schemas) {
  const texts = Object.values(schemas).map((schema) => [schema.$id, JSON.stringify(schema)]);
  const shelf = new Map(texts);
  return async (address) => {
    if (!shelf.has(address)) throw new Error(`${address} is none of ours`);
    return shelf.get(address);
  };
}
