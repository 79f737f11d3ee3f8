# Writes the files beside it: every compression and encoding of R, and the kinds of objects that people keep in states.
f <- compiler::cmpfun(function(x, ...) { y <- x^2; for (i in seq_len(10)) y <- y + i; if (y > 3) y else sapply(1:3, function(k) k + y) })
e <- new.env(); assign("inner", 1:5, envir = e); e$self <- e
setClass("P", representation(name = "character", age = "numeric"))
df <- data.frame(a = 1:5, b = factor(c("x", "y", "x", "y", "z")))
state <- list(iter = 1500L, epoch = 7, f = f, e = e, p = new("P", name = "q", age = 3), df = df, z = 1+2i,
              s = c("a", NA, "\u00fc"), none = NULL, l = c(TRUE, NA), raw = as.raw(1:10), long = 1:1000000, call = quote(f(x, y = 2)))
saveRDS(state, "state_gzip.rds")
saveRDS(state, "state_bzip2.rds", compress = "bzip2")
saveRDS(state, "state_none.rds", compress = FALSE)
saveRDS(list(iter = 3, beta = c(0.5, NA, Inf)), "state_ascii.rds", ascii = TRUE, compress = FALSE)
saveRDS(list(iter = 4), "old.rds", version = 2, compress = FALSE)
con <- file("native.rds", "wb"); serialize(list(iter = 5), con, xdr = FALSE); close(con)
step <- 42L; epoch <- 3L
save(step, epoch, state, f, e, file = "many.RData", compress = "xz")
