"""Keys and values, decoded with the schemas of a registry, or as Kafka's own serializers wrote them.

- `decoding`: the choice of forms in which keys and values are decoded.
- `resolution`: the schema that an id stands for.
- `row_decoder`: rows of bytes to rows of values.
"""
