"""Operations that rewrite logs: delete, truncate, convert, erase, compact."""
