"""From what people have (arrays, tables, texts, folders, the public sets) to indexed samples."""
