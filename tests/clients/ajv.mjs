// Ajv, as strict as it gets. Documents carry `data`; the answer lists {path, message}.

import Ajv from "ajv";
import { answer } from "./answer.mjs";

const ANNOTATIONS = [
  "errorMessage",
  "deprecationMessage",
  "markdownDescription",
  "enumDescriptions",
  "defaultSnippets",
];

await answer(({ schemas, documents }) => {
  const ajv = new Ajv({ strict: true, allErrors: true, allowUnionTypes: true });
  ajv.addVocabulary(ANNOTATIONS);
  const judges = Object.entries(schemas).map(([name, schema]) => [name, ajv.compile(schema)]);
  const judgeOf = Object.fromEntries(judges);
  return documents.map(({ name, schema, data }) => {
    const judge = judgeOf[schema];
    const problems = judge(data) ? [] : judge.errors;
    return [name, problems.map(({ instancePath, message }) => ({ path: instancePath, message }))];
  });
});
