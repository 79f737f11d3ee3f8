"""How values are written in the rows of the database: in few bytes, and as both databases take them."""
