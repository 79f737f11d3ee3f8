"""Makes text of others safe for one line of a log or an error."""


def replace_unprintable(text: str) -> str:
    """Return the text with a question mark for each character that is invisible or ends a line."""
    return "".join(character if character.isprintable() else "?" for character in text)
