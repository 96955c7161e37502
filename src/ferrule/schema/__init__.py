"""JSON Schema 2020-12: admit a schema, check a value, decode a value written without types, infer a schema.

One module for each: `admit` (with `measure`, `drafts`, `refs`, `shapes`, `patterns`, `expansion`), `check` (with
`words`, `effort` and `descent`), `decode` (over `reader`, `notation`, `escapes`, `spell`), `infer` (with `annotations`,
`docstring` and `lift`) and `to_python`, its way back.
This room does no IO, fetches nothing and knows no wire format, engine or tool source.
"""
