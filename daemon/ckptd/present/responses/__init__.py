"""Types of the JSON documents of the commands and the API; OpenAPI is generated from them.

They are typed dictionaries: mypy checks each function that builds a row against them, and a row costs no more than any
dictionary. Pydantic, which reads the types, is imported with these modules; commands that must start fast import them
for type checking only. The tests validate every document against its type and refuse unknown and missing fields.
"""
