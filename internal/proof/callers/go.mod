module github.com/sluice-redis/sluice/internal/proof/callers

go 1.26.0

require github.com/sluice-redis/sluice v0.0.0
