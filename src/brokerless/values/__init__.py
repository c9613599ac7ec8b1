"""Keys and values, decoded and encoded with the schemas of a registry, or as Kafka's own serializers do.

- `forms`: the forms of keys and values.
- `decoding` and `encoding`: the choice of forms in which keys and values are decoded, or encoded.
- `resolution`: the schema that an id stands for, and the one that is written.
- `row_decoder`: rows of bytes to rows of values.
- `row_encoder`: rows of values to rows of bytes.
"""
