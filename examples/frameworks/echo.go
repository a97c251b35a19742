package frameworks

import (
	"net/http"

	"github.com/labstack/echo/v5"

	"github.com/sluice-redis/sluice/loader"
)

// Echo has an adapter: WrapMiddleware, which passes the path values on. A limit that counts by the status needs
// answerErrors behind it.
func Echo(limits *loader.Loader) http.Handler {
	limited, e := newMiddleware(limits), echo.New()
	e.GET("/hello", func(c *echo.Context) error {
		return c.String(http.StatusOK, "hello")
	}, echo.WrapMiddleware(limited.hello))
	e.GET("/orders/:id", func(c *echo.Context) error {
		return c.String(http.StatusOK, c.Param("id"))
	}, echo.WrapMiddleware(limited.order))
	e.POST("/login", func(c *echo.Context) error {
		if !known(c.Request()) {
			return echo.ErrUnauthorized
		}
		return nil
	}, echo.WrapMiddleware(limited.login), answerErrors)
	return e
}

// answerErrors answers an error where it is returned. By default echo does that after all middleware.
func answerErrors(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c *echo.Context) error {
		if err := next(c); err != nil {
			c.Echo().HTTPErrorHandler(c, err)
		}
		return nil
	}
}
