"""Words for true and false in a few languages."""

import polars

TRUE_NAME, FALSE_NAME = "true", "false"  # the categories that words become
TRUE = {"true", "t", "yes", "y", "on", "1", "ja", "j", "wahr", "oui", "vrai", "si", "sí", "verdadero", "sim", "vero"}
FALSE = {"false", "f", "no", "n", "off", "0", "nein", "falsch", "non", "faux", "falso", "não", "nao", "falsi"}


def are_booleans(texts: polars.Series) -> bool:
    """Tell whether all texts are words for true and false; 0 and 1 alone are numbers.

    Args:
        texts: A column of texts, null where a value is missing.

    Returns:
        Whether both are there in any spelling, or one word alone. Two words for one thing, or two letters, are not:
        they are categories.
    """
    words = texts.str.strip_chars().str.to_lowercase().drop_nulls()
    different = set(words.unique(maintain_order=True).head(len(TRUE | FALSE) + 1).to_list())
    if not different <= TRUE | FALSE or different <= {"0", "1"}:
        return False
    letters = [word for word in different if len(word) == 1]
    if len({word in TRUE for word in letters}) < len(letters):
        return False
    return len(different) == 1 or len({word in TRUE for word in different}) == 2


def parse_booleans(texts: polars.Series) -> polars.Series:
    """Return "true" for words that mean that, "false" for those that mean the other, null for others."""
    words = texts.str.strip_chars().str.to_lowercase()
    true, false = (polars.lit(name, polars.String) for name in (TRUE_NAME, FALSE_NAME))
    found = polars.when(words.is_in(list(TRUE))).then(true).when(words.is_in(list(FALSE))).then(false)
    return polars.select(found).to_series().alias(texts.name)
