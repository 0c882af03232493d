"""How a child is started: one interface (`base`), one file per implementation; knows neither config nor protocol."""
