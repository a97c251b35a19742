package frameworks

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/sluice-redis/sluice/loader"
)

// Gin needs an adapter. The client is that of httplimit, not of gin's ClientIP, which trusts every proxy by default.
func Gin(limits *loader.Loader) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	limited, engine := newMiddleware(limits), gin.New()
	engine.GET("/hello", adapt(limited.hello), func(c *gin.Context) {
		c.String(http.StatusOK, "hello")
	})
	engine.GET("/orders/:id", adapt(limited.order), func(c *gin.Context) {
		c.String(http.StatusOK, c.Param("id"))
	})
	engine.POST("/login", adapt(limited.login), func(c *gin.Context) {
		if !known(c.Request) {
			c.Status(http.StatusUnauthorized)
		}
	})
	return engine
}

// adapt makes a handler of gin from a middleware of net/http. It passes the path values on, and the status back,
// because gin writes to a writer of its own. A connection that a handler takes over is not seen: limit those without
// httplimit.Slots.
func adapt(middleware func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		for _, p := range c.Params {
			c.Request.SetPathValue(p.Key, p.Value)
		}
		granted := false
		middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			granted, c.Request = true, r
			c.Next()
			w.WriteHeader(c.Writer.Status())
		})).ServeHTTP(c.Writer, c.Request)
		if !granted {
			c.Abort()
		}
	}
}
