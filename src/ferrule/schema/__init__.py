"""JSON Schema 2020-12: admit a schema, check a value, decode an untyped value, infer a schema from a function.

- `admission` validates an untrusted schema (with `value_size`, `drafts`, `refs`, `metaschema`, `patterns`, `expansion`
  and `satisfiability`).
- `checker` validates a value (with `fault_messages`, `fault_location` and `cost_limit`).
- `value_decoder` decodes values that a format writes without their types (with `reader`, `notation`, `escapes` and
  `value_text`).
- `inference` makes a schema from a Python function (with `annotations`, `docstring` and `hoisting`);
  `python_arguments` converts arguments back to Python values.

The package does no IO, fetches nothing and does not depend on any wire format, engine or tool source.
"""
