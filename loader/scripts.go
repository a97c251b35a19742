package loader

import "github.com/sluice-redis/sluice"

// The scripts, each at one address: it stands for the script where two are compared.
var (
	budgetSettleV1       = sluice.BudgetSettleV1()
	budgetV1             = sluice.BudgetV1()
	concurrencyReleaseV1 = sluice.ConcurrencyReleaseV1()
	concurrencyV1        = sluice.ConcurrencyV1()
	gcraV1               = sluice.GCRAV1()
	listLogReturnV1      = sluice.ListLogReturnV1()
	listLogV1            = sluice.ListLogV1()
	quotaReturnV1        = sluice.QuotaReturnV1()
	quotaV1              = sluice.QuotaV1()
	sliceRingReturnV1    = sluice.SliceRingReturnV1()
	sliceRingV1          = sluice.SliceRingV1()
	tokenBucketSetV1     = sluice.TokenBucketSetV1()
	tokenBucketV1        = sluice.TokenBucketV1()
	zsetLogReturnV1      = sluice.ZSetLogReturnV1()
	zsetLogV1            = sluice.ZSetLogV1()
)
