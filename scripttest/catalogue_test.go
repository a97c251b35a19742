package scripttest_test

import "github.com/sluice-redis/sluice"

// The scripts, each at one address: it stands for the script where two are compared.
var (
	budgetSettleV1Script       = sluice.BudgetSettleV1()
	budgetV1Script             = sluice.BudgetV1()
	concurrencyReleaseV1Script = sluice.ConcurrencyReleaseV1()
	concurrencyV1Script        = sluice.ConcurrencyV1()
	gcraManyV1Script           = sluice.GCRAManyV1()
	gcraV1Script               = sluice.GCRAV1()
	listLogManyV1Script        = sluice.ListLogManyV1()
	listLogReturnV1Script      = sluice.ListLogReturnV1()
	listLogV1Script            = sluice.ListLogV1()
	quotaReturnV1Script        = sluice.QuotaReturnV1()
	quotaV1Script              = sluice.QuotaV1()
	sliceRingManyV1Script      = sluice.SliceRingManyV1()
	sliceRingReturnV1Script    = sluice.SliceRingReturnV1()
	sliceRingV1Script          = sluice.SliceRingV1()
	tokenBucketSetV1Script     = sluice.TokenBucketSetV1()
	tokenBucketV1Script        = sluice.TokenBucketV1()
	zsetLogReturnV1Script      = sluice.ZSetLogReturnV1()
	zsetLogV1Script            = sluice.ZSetLogV1()
)
