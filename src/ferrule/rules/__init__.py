"""Rules: what a model may write next, and one emitter module for each grammar language.

`rule` defines the tree. `lark`, `gbnf`, `structural_tag` and `json_schema` emit it for a target. `lowering` replaces
JSON Schema by plain nodes for targets that have no schema compiler. `skip` finds the text that a rule forces. The
package does no IO and does not depend on any engine.
"""
